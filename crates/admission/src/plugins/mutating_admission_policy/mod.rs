//! Objects are changed by the expressions of MutatingAdmissionPolicies, where those are bound.

mod observed;
mod patches;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::sync::Arc;

use api::admissionregistration::MutatingAdmissionPolicy as Object;
use api::admissionregistration::expressions::{Returns, Sees};
use apimachinery::ApiError;
use apimachinery::cel::libraries::authz::Decisions;
use k8s_openapi::api::admissionregistration::v1::MutatingAdmissionPolicySpec;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Status, StatusCause};
use serde_json::Value;
use tokio::time::Instant;

use crate::attributes::Attributes;
use crate::chain::{Admitting, Phase, Plugin, Reinvocation};
use crate::context::Context;
use crate::matching::{Invocation, namespace_of};
use crate::policy::Policies;
use crate::policy::conditions::metrics::Of;
use crate::policy::conditions::{Judged, Verdict};
use crate::policy::evaluation::{Expression, Inputs};
use crate::policy::exempt::is_exempt;
use crate::policy::metrics::Metrics;
use crate::policy::params;
use crate::policy::request::{AskedAbout, settle};
use crate::policy::source::{Binding, Definition, OnFailure, Rules, define};
use crate::shown::Shown;
use observed::Watched;
use patches::Patched;

const KIND: &str = "MutatingAdmissionPolicy";

pub struct MutatingAdmissionPolicy(pub Arc<Policies>);

/// What a policy changes, compiled.
pub(crate) struct Mutations {
    mutations: Vec<Mutation>,
    is_reinvoked: bool,
}

/// One change.
pub(crate) enum Mutation {
    Apply(Expression),
    JsonPatch(Expression),
}

impl Mutations {
    pub(crate) fn compile(policy: &Object) -> Option<Definition<Self>> {
        define!(policy, Self::rules)
    }

    fn rules(spec: &MutatingAdmissionPolicySpec) -> Rules<Self> {
        let sees = Sees { params: false, authorizer: true, patches: true };
        let variables = (spec.variables.as_ref(), spec.param_kind.is_some());
        Rules::new(variables, spec.match_conditions.as_ref(), |composition| {
            let compile = |text: Option<&String>, returns| {
                composition.compile(text.map_or("", String::as_str), sees, returns)
            };
            let mutation = |it: &k8s_openapi::api::admissionregistration::v1::Mutation| {
                if let Some(patch) = &it.json_patch {
                    let text = patch.expression.as_ref();
                    return Some(Mutation::JsonPatch(compile(text, Returns::JsonPatches)));
                }
                let apply = it.apply_configuration.as_ref()?;
                Some(Mutation::Apply(compile(apply.expression.as_ref(), Returns::Object)))
            };
            Self {
                mutations: spec.mutations.iter().flatten().filter_map(mutation).collect(),
                is_reinvoked: spec.reinvocation_policy.as_deref() == Some("IfNeeded"),
            }
        })
    }
}

impl Plugin for MutatingAdmissionPolicy {
    fn name(&self) -> &'static str {
        KIND
    }

    fn handles(&self, phase: Phase, request: &Attributes<'_>) -> bool {
        phase == Phase::Mutate && self.0.mutating.has(request) && !is_exempt(request)
    }

    fn reinvocation(&self) -> Reinvocation {
        Reinvocation::Outside
    }

    fn admit<'a>(&'a self, context: &'a mut Context<'_>) -> Admitting<'a> {
        Box::pin(admit(&self.0, context))
    }
}

/// Policy, binding and parameter.
type Key = (String, String, String);

/// Who ran, for when the chain runs for the second time.
#[derive(Default)]
struct Memory {
    /// With IfNeeded, and not since the object was last changed.
    invoked: BTreeSet<Key>,
    /// To be run again: they ran before somebody else changed the object.
    due: BTreeSet<Key>,
    /// How the object was when the last of them was done.
    left: u64,
}

impl Memory {
    /// Somebody changed the object.
    fn require_all(&mut self) {
        self.due.append(&mut self.invoked);
    }
}

/// One policy with one binding and one parameter.
struct Case {
    definition: Arc<Definition<Mutations>>,
    binding: Arc<Binding>,
    invocation: Invocation,
    params: Option<Arc<Value>>,
}

impl Case {
    fn key(&self) -> Key {
        let metadata = self.params.as_ref().map(|it| &it["metadata"]);
        let text = |field: &str| metadata.and_then(|it| it[field].as_str()).unwrap_or_default();
        let params = format!("{}/{}", text("namespace"), text("name"));
        (self.definition.name.clone(), self.binding.name.clone(), params)
    }
}

/// What went wrong with policies that do not ignore failures.
#[derive(Default)]
struct Problems(Vec<String>);

impl Problems {
    fn add(
        &mut self,
        context: &Context<'_>,
        definition: &Definition<Mutations>,
        binding: Option<&str>,
        why: &str,
    ) {
        match definition.on_failure(&context.request) {
            OnFailure::Deny => self.0.push(denied(&definition.name, binding, why)),
            OnFailure::Spare => definition.spared(KIND, binding, why),
            OnFailure::Ignore => {}
        }
    }
}

fn denied(policy: &str, binding: Option<&str>, why: &str) -> String {
    match binding {
        Some(binding) => {
            format!("policy '{policy}' with binding '{binding}' denied request: {why}")
        }
        None => format!("policy {policy:?} denied request: {why}"),
    }
}

async fn admit(policies: &Policies, context: &mut Context<'_>) -> Result<(), ApiError> {
    let mut problems = Problems::default();
    let cases = find(policies, context, &mut problems).await;
    if context.is_reinvocation() && context.generation() != context.memory::<Memory>().left {
        context.memory::<Memory>().require_all();
    }
    let (about, decisions) = Default::default();
    let mut asking = Asking { about, decisions, metrics: &policies.metrics };
    for case in cases {
        run(context, &case, &mut asking, &mut problems).await?;
    }
    context.memory::<Memory>().left = context.generation();
    if problems.0.is_empty() { Ok(()) } else { Err(refused(context, problems.0)) }
}

/// What applies to the request.
async fn find(policies: &Policies, context: &Context<'_>, problems: &mut Problems) -> Vec<Case> {
    let mut cases = Vec::new();
    let configuring = |what: &str, why: &str| format!("failed to configure {what}: {why}");
    for hook in policies.mutating.find(&context.request).iter() {
        let definition = &hook.definition;
        let found = match &definition.constraints {
            Some(constraints) => constraints.find(context).map_err(|it| it.to_string()),
            None => Err("policy contained no match constraints, a required field".to_owned()),
        };
        let invocation = match found {
            Ok(Some(invocation)) => invocation,
            Ok(None) => continue,
            Err(why) => {
                problems.add(context, definition, None, &configuring("policy", &why));
                continue;
            }
        };
        let parameters = policies.parameters.as_ref();
        if let Some(why) = params::configuration_error(definition, parameters) {
            problems.add(context, definition, None, &configuring("policy", &why));
            continue;
        }
        for binding in &hook.bindings {
            let bound = binding.constraints.as_ref().map_or(Ok(true), |it| {
                it.find(context).map(|it| it.is_some()).map_err(|it| it.to_string())
            });
            let collected = match bound {
                Ok(false) => continue,
                Ok(true) => {
                    let namespace = namespace_of(context);
                    params::collect(definition, binding, namespace, parameters).await
                }
                Err(why) => Err(why),
            };
            match collected {
                Ok(all) => cases.extend(all.into_iter().map(|params| Case {
                    definition: definition.clone(),
                    binding: binding.clone(),
                    invocation: invocation.clone(),
                    params,
                })),
                Err(why) => {
                    let why = configuring("binding", &why);
                    problems.add(context, definition, Some(&binding.name), &why);
                }
            }
        }
    }
    cases
}

/// What is known of the request by now, for all policies.
struct Asking<'p> {
    about: AskedAbout,
    decisions: Arc<Decisions>,
    metrics: &'p Metrics,
}

async fn run(
    context: &mut Context<'_>,
    case: &Case,
    asking: &mut Asking<'_>,
    problems: &mut Problems,
) -> Result<(), ApiError> {
    if context.draft().is_none() {
        return Ok(());
    }
    let (definition, binding) = (&case.definition, Some(case.binding.name.as_str()));
    let mut watched = Watched::begin(context);
    let judged = matches(context, case, asking).await?;
    if !definition.rules.conditions.is_empty() {
        let of = Of::Policy(&definition.name);
        asking.metrics.conditions.judged(of, context.request.operation, &judged);
    }
    watched.spent(judged.cost);
    match judged.verdict {
        Verdict::Match => {}
        Verdict::No => {
            watched.skipped(context, case);
            return Ok(());
        }
        Verdict::Error(why) => {
            watched.failed(&why);
            watched.end(context, case);
            problems.add(context, definition, binding, &why);
            return Ok(());
        }
    }
    let key = case.key();
    if context.is_reinvocation() && !context.memory::<Memory>().due.contains(&key) {
        return Ok(());
    }
    let before = context.generation();
    for (index, mutation) in definition.rules.effect.mutations.iter().enumerate() {
        let (done, cost) = attempt(context, case, mutation, asking).await?;
        watched.evaluated(index, mutation, cost, done.as_ref().err());
        if let Err(why) = done {
            problems.add(context, definition, binding, &why);
        }
    }
    watched.end(context, case);
    let is_changed = context.generation() != before;
    let memory = context.memory::<Memory>();
    if is_changed {
        memory.require_all();
    }
    if definition.rules.effect.is_reinvoked {
        memory.invoked.insert(key);
    }
    Ok(())
}

/// Whether it is done, or why it cannot be; and what that cost.
type Done = (Result<(), String>, u64);

/// One mutation, measured. What makes no object of the object ends the request, unless the cluster
/// lives on that.
async fn attempt(
    context: &mut Context<'_>,
    case: &Case,
    mutation: &Mutation,
    asking: &mut Asking<'_>,
) -> Result<Done, ApiError> {
    let begin = Instant::now();
    let done = change(context, case, mutation, asking).await;
    let why = match &done {
        Ok((Ok(()), _)) => None,
        Ok((Err(why), _)) => Some(why.as_str()),
        Err(err) => Some(err.message()),
    };
    let (policy, binding) = (&case.definition, &case.binding);
    asking.metrics.mutated((&policy.name, &binding.name), why, begin.elapsed());
    match done {
        Err(err) if policy.on_failure(&context.request) == OnFailure::Spare => {
            Ok((Err(err.message().to_owned()), 0))
        }
        done => done,
    }
}

/// On the object as it is by now.
async fn change(
    context: &mut Context<'_>,
    case: &Case,
    mutation: &Mutation,
    asking: &mut Asking<'_>,
) -> Result<Done, ApiError> {
    let (patched, cost) = mutate(context, case, mutation, asking).await?;
    let done = match patched {
        Ok(Some(tree)) => {
            if matches!(mutation, Mutation::JsonPatch(_)) {
                check_fields(context, &tree)?;
            }
            replace(context, case, tree).await?;
            Ok(())
        }
        Ok(None) => Ok(()),
        Err(why) => Err(why),
    };
    Ok((done, cost))
}

async fn matches(
    context: &Context<'_>,
    case: &Case,
    asking: &mut Asking<'_>,
) -> Result<Judged, ApiError> {
    let evaluate = |inputs: &Inputs<'_>| {
        let nowhere = Inputs { namespace: &Value::Null, ..*inputs };
        case.definition.rules.conditions.judge(&case.definition.rules.composition, &nowhere)
    };
    with_inputs(context, case, asking, evaluate).await
}

/// The object as it will be, if the mutation says anything; or why it cannot be told.
async fn mutate(
    context: &Context<'_>,
    case: &Case,
    mutation: &Mutation,
    asking: &mut Asking<'_>,
) -> Result<Patched, ApiError> {
    let schema = context.request.kind.schema();
    let composition = &case.definition.rules.composition;
    let evaluate = |inputs: &Inputs<'_>| match mutation {
        Mutation::Apply(expression) => patches::apply(expression, composition, inputs, &schema),
        Mutation::JsonPatch(expression) => patches::json_patch(expression, composition, inputs),
    };
    with_inputs(context, case, asking, evaluate).await
}

async fn with_inputs<T>(
    context: &Context<'_>,
    case: &Case,
    asking: &mut Asking<'_>,
    evaluate: impl Fn(&Inputs<'_>) -> T,
) -> Result<T, ApiError> {
    let shown = Shown::new(context, &case.invocation).await?;
    let asked = asking.about.find(context, &case.invocation)?;
    let decisions = &asking.decisions;
    let params = case.params.as_deref().unwrap_or(&Value::Null);
    Ok(settle(context, decisions, || {
        evaluate(&Inputs {
            object: shown.object_tree(),
            old: shown.old_tree(),
            request: &asked.request,
            namespace: &asked.namespace,
            params,
            authorizer: Some((decisions, &asked.resource)),
        })
    })
    .await)
}

/// Takes the result, in the version that is worked on, with defaults.
async fn replace(context: &mut Context<'_>, case: &Case, tree: Value) -> Result<(), ApiError> {
    let working = context.request.kind.names().api_version();
    let tree = if tree["apiVersion"] == case.invocation.kind.api_version().as_str()
        && tree["apiVersion"] != working.as_str()
        && !context.request.has_own_kind()
    {
        let json = tree.to_string().into_bytes().into();
        let converted = context.request.versions.convert(json, &working).await?;
        serde_json::from_slice(&converted).map_err(unreadable)?
    } else {
        tree
    };
    context.replace(&tree).map_err(unreadable)?;
    Ok(())
}

/// A patch may put anything anywhere; kinds of our own have only the fields that they have.
fn check_fields(context: &Context<'_>, tree: &Value) -> Result<(), ApiError> {
    let (kind, request) = (context.request.kind, &context.request);
    let is_own = tree["apiVersion"] == kind.names().api_version().as_str();
    if kind.is_custom() || request.has_own_kind() || !is_own {
        return Ok(());
    }
    let report = kind.schema().validate_fields(tree.to_string().as_bytes());
    if !report.problems.is_empty() {
        let all = report.problems.join(", ");
        return Err(internal(&format!("strict decoding error: {all}")));
    }
    report.refusal().map_or(Ok(()), |why| Err(internal(&why)))
}

fn unreadable(err: serde_json::Error) -> ApiError {
    internal(&err.to_string())
}

/// What upstream says when a mutation made something that is no object any more.
fn internal(why: &str) -> ApiError {
    ApiError::said(Status {
        code: Some(500),
        reason: Some("InternalError".to_owned()),
        message: Some(format!("Internal error occurred: {why}")),
        ..Status::default()
    })
}

/// All that went wrong are causes; the first is the message.
fn refused(context: &Context<'_>, problems: Vec<String>) -> ApiError {
    let mut status = context.forbidden("").to_status();
    status.message = problems.first().cloned();
    status.reason = Some("Invalid".to_owned());
    let cause = |message| StatusCause { message: Some(message), ..StatusCause::default() };
    let causes = status.details.get_or_insert_default().causes.get_or_insert_default();
    causes.extend(problems.into_iter().map(cause));
    ApiError::said(status)
}
