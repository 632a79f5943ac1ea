//! Requests are held against the expressions of ValidatingAdmissionPolicies, where those are bound:
//! what does not meet them is refused, warned of, or noted in the audit log.

mod judgment;
mod observed;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use api::admissionregistration::ValidatingAdmissionPolicy as Object;
use api::admissionregistration::expressions::{Returns, Sees};
use apimachinery::ApiError;
use apimachinery::cel::libraries::authz::Decisions;
use k8s_openapi::api::admissionregistration::v1::ValidatingAdmissionPolicySpec;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::StatusCause;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::attributes::Attributes;
use crate::chain::{Phase, Plugin, Validating};
use crate::context::Context;
use crate::matching::{Invocation, namespace_of};
use crate::policy::Policies;
use crate::policy::conditions::metrics::Of;
use crate::policy::evaluation::{Expression, Inputs};
use crate::policy::exempt::is_exempt;
use crate::policy::params;
use crate::policy::request::{Asked, AskedAbout, settle};
use crate::policy::source::{Binding, Definition, Hook, OnFailure, Rules, define};
use crate::shown::Shown;
use judgment::{Annotation, Decision, Judgment, Policy};

/// Values of audit annotations are cut here.
const ANNOTATION_BYTES_MAX: usize = 10 * 1024;
const KIND: &str = "ValidatingAdmissionPolicy";
const FAILURE_KEY: &str = "validation.policy.admission.k8s.io/validation_failure";

pub struct ValidatingAdmissionPolicy(pub Arc<Policies>);

/// What a policy demands, compiled.
pub(crate) struct Validations {
    validations: Vec<Validation>,
    /// By key.
    annotations: Vec<(String, Expression)>,
}

struct Validation {
    expression: Expression,
    message_expression: Option<Expression>,
    message: String,
    reason: Option<String>,
}

impl Validations {
    pub(crate) fn compile(policy: &Object) -> Option<Definition<Self>> {
        define!(policy, Self::rules)
    }

    fn rules(spec: &ValidatingAdmissionPolicySpec) -> Rules<Self> {
        let asking = Sees { params: false, authorizer: true, patches: false };
        let silent = Sees { authorizer: false, ..asking };
        let variables = (spec.variables.as_ref(), spec.param_kind.is_some());
        Rules::new(variables, spec.match_conditions.as_ref(), |composition| {
            let validations = spec.validations.iter().flatten().map(|it| Validation {
                expression: composition.compile(&it.expression, asking, Returns::Bool),
                message_expression: it
                    .message_expression
                    .as_deref()
                    .filter(|it| !it.is_empty())
                    .map(|text| composition.compile(text, silent, Returns::Text)),
                message: it.message.clone().unwrap_or_default(),
                reason: it.reason.clone(),
            });
            let annotations = spec.audit_annotations.iter().flatten().map(|it| {
                let value = it.value_expression.as_str();
                (it.key.clone(), composition.compile(value, asking, Returns::TextOrNull))
            });
            Self { validations: validations.collect(), annotations: annotations.collect() }
        })
    }
}

impl Plugin for ValidatingAdmissionPolicy {
    fn name(&self) -> &'static str {
        KIND
    }

    fn handles(&self, phase: Phase, request: &Attributes<'_>) -> bool {
        phase == Phase::Validate && self.0.validating.has(request) && !is_exempt(request)
    }

    fn validate<'a>(&'a self, context: &'a Context<'_>) -> Validating<'a> {
        Box::pin(async { validate(&self.0, context).await.map(|()| None) })
    }
}

/// The first reason to refuse the request.
struct Refusal<'a> {
    first: Option<(String, Option<String>)>,
    context: &'a Context<'a>,
}

fn denied(policy: &str, binding: Option<&str>, why: &str) -> String {
    match binding {
        Some(binding) => format!(
            "ValidatingAdmissionPolicy '{policy}' with binding '{binding}' denied request: {why}"
        ),
        None => format!("ValidatingAdmissionPolicy '{policy}' denied request: {why}"),
    }
}

fn warning(policy: &str, binding: &str, why: &str) -> String {
    format!(
        "Validation failed for ValidatingAdmissionPolicy '{policy}' with binding '{binding}': {why}"
    )
}

impl Refusal<'_> {
    fn add(&mut self, policy: &str, binding: Option<&str>, why: &str, reason: Option<&str>) {
        let message = denied(policy, binding, why);
        self.first.get_or_insert_with(|| (message, reason.map(str::to_owned)));
    }

    /// Something is wrong with the policy or the binding itself.
    fn misconfigured(
        &mut self,
        definition: &Definition<Validations>,
        binding: Option<&str>,
        why: &str,
    ) {
        let what = if binding.is_some() { "binding" } else { "policy" };
        let why = format!("failed to configure {what}: {why}");
        let on_failure = definition.on_failure(&self.context.request);
        if let Some(observer) = self.context.observer() {
            observer.part(observed::misconfigured((definition, on_failure), binding, &why));
        }
        match on_failure {
            OnFailure::Deny => self.add(&definition.name, binding, &why, None),
            OnFailure::Spare => definition.spared(KIND, binding, &why),
            OnFailure::Ignore => {}
        }
    }
}

async fn validate(policies: &Policies, context: &Context<'_>) -> Result<(), ApiError> {
    let mut refusal = Refusal { first: None, context };
    let decisions = Arc::new(Decisions::default());
    let mut about = AskedAbout::default();
    for hook in policies.validating.find(&context.request).iter() {
        let definition = &hook.definition;
        let Some(constraints) = &definition.constraints else {
            let why = "policy contained no match constraints, a required field";
            refusal.misconfigured(definition, None, why);
            continue;
        };
        match constraints.find(context).map_err(|it| it.to_string()) {
            Err(why) => refusal.misconfigured(definition, None, &why),
            Ok(None) => {}
            Ok(Some(invocation)) => {
                match params::configuration_error(definition, policies.parameters.as_ref()) {
                    Some(why) => refusal.misconfigured(definition, None, &why),
                    None => {
                        let case = Case { policies, context, decisions: &decisions };
                        let said = (&mut about, &mut refusal);
                        case.hold_against(hook, &invocation, said).await?;
                    }
                }
            }
        }
    }
    match refusal.first {
        Some((message, reason)) => Err(refused(context, &message, reason.as_deref())),
        None => Ok(()),
    }
}

/// One request.
struct Case<'a> {
    policies: &'a Policies,
    context: &'a Context<'a>,
    decisions: &'a Arc<Decisions>,
}

impl Case<'_> {
    /// All bindings of one policy.
    async fn hold_against(
        &self,
        hook: &Hook<Validations>,
        invocation: &Invocation,
        (about, refusal): (&mut AskedAbout, &mut Refusal<'_>),
    ) -> Result<(), ApiError> {
        let definition = &hook.definition;
        let on_failure = definition.on_failure(&self.context.request);
        let policy = Policy { definition, on_failure };
        let mut annotations: BTreeMap<&str, Vec<String>> = BTreeMap::new();
        // What all bindings see alike, made when the first of them is for the request.
        let mut seen: Option<(Shown, Arc<Asked>)> = None;
        for binding in &hook.bindings {
            let is_bound = binding.constraints.as_ref().map_or(Ok(true), |it| {
                it.find(self.context).map(|it| it.is_some()).map_err(|it| it.to_string())
            });
            match is_bound {
                Ok(true) => {}
                Ok(false) => continue,
                Err(why) => {
                    refusal.misconfigured(definition, Some(&binding.name), &why);
                    continue;
                }
            }
            let namespace = namespace_of(self.context);
            let parameters = self.policies.parameters.as_ref();
            let found = match params::collect(definition, binding, namespace, parameters).await {
                Ok(found) => found,
                Err(why) => {
                    refusal.misconfigured(definition, Some(&binding.name), &why);
                    continue;
                }
            };
            if found.is_empty() {
                continue;
            }
            if seen.is_none() {
                let objects = Shown::new(self.context, invocation).await?;
                seen = Some((objects, about.find(self.context, invocation)?));
            }
            let Some((shown, asked)) = &seen else { continue };
            for params in found {
                let params = params.as_deref().unwrap_or(&Value::Null);
                let begin = Instant::now();
                let judgment = self.judge(policy, (shown, asked, params)).await;
                if let Some(judged) = &judgment.matching {
                    let of = Of::Policy(&definition.name);
                    let metrics = &self.policies.metrics.conditions;
                    metrics.judged(of, self.context.request.operation, judged);
                }
                if let Some(observer) = self.context.observer() {
                    let about = (definition.as_ref(), binding.as_ref(), params);
                    let part = observed::part(about, &judgment, begin.elapsed());
                    observer.part(part);
                }
                self.act(policy, binding, judgment, &mut annotations, refusal);
            }
        }
        for (key, values) in annotations {
            self.context.annotate(&format!("{}/{key}", definition.name), &values.join(", "));
        }
        Ok(())
    }

    async fn judge<'d>(
        &self,
        policy: Policy<'d>,
        (shown, asked, params): (&Shown, &Asked, &Value),
    ) -> Judgment<'d> {
        settle(self.context, self.decisions, || {
            let inputs = Inputs {
                object: shown.object_tree(),
                old: shown.old_tree(),
                request: &asked.request,
                namespace: &asked.namespace,
                params,
                authorizer: Some((self.decisions, &asked.resource)),
            };
            judgment::judge(policy, &inputs)
        })
        .await
    }

    /// What follows from a judgment, by what the binding asks for.
    fn act<'d>(
        &self,
        Policy { definition, on_failure }: Policy<'d>,
        binding: &Binding,
        judgment: Judgment<'d>,
        annotations: &mut BTreeMap<&'d str, Vec<String>>,
        refusal: &mut Refusal<'_>,
    ) {
        let (policy, name) = (definition.name.as_str(), binding.name.as_str());
        let is_spared = on_failure == OnFailure::Spare;
        let metrics = &self.policies.metrics;
        let count = |why: &str, action: &str, elapsed: Duration| {
            metrics.validated((policy, name), why, action, elapsed);
        };
        for (index, (decision, elapsed)) in judgment.decisions.iter().enumerate() {
            let (message, reason) = match decision {
                Decision::Admit => continue,
                Decision::Ignored(why) => {
                    if is_spared {
                        definition.spared(KIND, Some(name), why);
                    }
                    count(why, "allow", *elapsed);
                    continue;
                }
                Decision::Deny { message, reason } => (message, reason),
            };
            for action in &binding.actions {
                match action.as_str() {
                    "Deny" => refusal.add(policy, Some(name), message, reason.as_deref()),
                    "Warn" => self.context.warn(&warning(policy, name, message)),
                    "Audit" => self.note_failure(binding, index, message),
                    _ => continue,
                }
                count(message, &action.to_ascii_lowercase(), *elapsed);
            }
        }
        for (key, annotation, elapsed) in judgment.annotations {
            match annotation {
                Annotation::Value(mut value) => {
                    value.truncate(value.floor_char_boundary(ANNOTATION_BYTES_MAX));
                    let values = annotations.entry(key).or_default();
                    if !values.contains(&value) {
                        values.push(value);
                    }
                }
                Annotation::None => {}
                Annotation::Error(why) if is_spared => {
                    definition.spared(KIND, Some(name), &why);
                    count(&why, "allow", elapsed);
                }
                Annotation::Error(why) => {
                    refusal.add(policy, Some(name), &why, None);
                    count(&why, "deny", elapsed);
                }
            }
        }
    }

    fn note_failure(&self, binding: &Binding, index: usize, message: &str) {
        let failure = json!([{
            "message": message,
            "policy": binding.policy,
            "binding": binding.name,
            "expressionIndex": index,
            "validationActions": binding.actions,
        }]);
        self.context.annotate(FAILURE_KEY, &failure.to_string());
    }
}

/// The reason that a validation asks for, and its code.
fn reason_of(reason: Option<&str>) -> (&str, u16) {
    let reason = reason.filter(|it| !it.is_empty()).unwrap_or("Invalid");
    let code = match reason {
        "Unauthorized" => 401,
        "Forbidden" => 403,
        "RequestEntityTooLarge" => 413,
        _ => 422,
    };
    (reason, code)
}

/// With the reason that the validation asks for.
fn refused(context: &Context<'_>, message: &str, reason: Option<&str>) -> ApiError {
    let mut status = context.forbidden(message).to_status();
    let (reason, code) = reason_of(reason);
    status.code = Some(code.into());
    status.reason = Some(reason.to_owned());
    let cause = StatusCause { message: Some(message.to_owned()), ..StatusCause::default() };
    status.details.get_or_insert_default().causes.get_or_insert_default().push(cause);
    ApiError::said(status)
}
