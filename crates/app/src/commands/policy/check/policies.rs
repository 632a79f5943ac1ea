//! Objects held against admission plugins, as the server would run them: policies of the file, or a
//! Pod Security level.

use std::collections::BTreeMap;
use std::sync::Arc;

use admission::observer::{By, Report, Step};
use admission::plugins::mutating_admission_policy::MutatingAdmissionPolicy;
use admission::plugins::pod_security::PodSecurity;
use admission::plugins::validating_admission_policy::ValidatingAdmissionPolicy;
use admission::policy::Parameters;
use admission::{
    Attributes, Chain, Codec, Configuration, Context, Draft, Notes, OneVersion, Operation, Options,
    Plugin, Surroundings,
};
use anyhow::{Context as _, Result};
use api::{Kind, Lookup, Resource, Stored};
use apimachinery::{GroupResource, ObjectKey, User};
use futures_util::future::BoxFuture;
use stdx::World;
use telemetry::Registry;

use super::findings::Verdict;
use super::judge::{Case, Concern, Judge};
use super::plan;
use super::rights::Rights;

/// What plugins may look at of the cluster: its namespaces, as they are now.
pub(super) struct Namespaces(pub(super) BTreeMap<String, Arc<Stored>>);

impl Lookup for Namespaces {
    fn find(&self, resource: &GroupResource, key: &ObjectKey) -> Option<Arc<Stored>> {
        let is_namespace = resource.group.is_empty() && resource.resource == "namespaces";
        self.0.get(&key.name).filter(|_| is_namespace).cloned()
    }

    fn list(&self, resource: &GroupResource, _: Option<&str>) -> Vec<Arc<Stored>> {
        let is_namespace = resource.group.is_empty() && resource.resource == "namespaces";
        self.0.values().filter(|_| is_namespace).cloned().collect()
    }
}

/// The plugins, and whoever is taken to have made the writes.
pub(super) struct Plugins {
    chain: Chain,
    namespaces: Namespaces,
    rights: Rights,
    user: User,
    concerns: Vec<Concern>,
    notes: Vec<String>,
}

/// What every judge of this kind stands on.
pub(super) struct Ground {
    pub(super) namespaces: Namespaces,
    pub(super) rights: Rights,
    pub(super) user: User,
    pub(super) concerns: Vec<Concern>,
}

impl Plugins {
    pub(super) fn of_policies(
        wanted: &plan::Policies,
        parameters: Arc<dyn Parameters>,
        ground: Ground,
    ) -> Self {
        let policies = admission::policy::Policies::new(parameters, &Registry::default());
        let name = |it: &Option<String>| it.clone().unwrap_or_default();
        for it in &wanted.validating {
            policies.set_validating(&name(&it.metadata.name), Some(it));
        }
        for (index, it) in wanted.validating_bindings.iter().enumerate() {
            policies.set_validating_binding(&format!("{index:06}"), Some(it));
        }
        for it in &wanted.mutating {
            policies.set_mutating(&name(&it.metadata.name), Some(it));
        }
        for (index, it) in wanted.mutating_bindings.iter().enumerate() {
            policies.set_mutating_binding(&format!("{index:06}"), Some(it));
        }
        let policies = Arc::new(policies);
        let plugins: Vec<Arc<dyn Plugin>> = vec![
            Arc::new(MutatingAdmissionPolicy(policies.clone())),
            Arc::new(ValidatingAdmissionPolicy(policies)),
        ];
        let mut notes = wanted.notes.clone();
        notes.extend(unknowns(wanted, &ground.user));
        Self::new(plugins, ground, notes)
    }

    pub(super) fn of_pod_security(ground: Ground) -> Result<Self> {
        let clock = World::system().clock;
        let plugin = PodSecurity::new(&Configuration::default(), &Registry::default(), clock)
            .context("setting up Pod Security")?;
        let notes = vec![
            "pods are refused; what makes pods is let through, and its pods are refused".to_owned(),
        ];
        Ok(Self::new(vec![Arc::new(plugin)], ground, notes))
    }

    fn new(plugins: Vec<Arc<dyn Plugin>>, ground: Ground, notes: Vec<String>) -> Self {
        let Ground { namespaces, rights, user, concerns } = ground;
        Self { chain: Chain::new(plugins), namespaces, rights, user, concerns, notes }
    }

    async fn hold_against(&self, case: &Case<'_>) -> Result<Vec<Verdict>> {
        let kind = case.concern.kind.as_ref();
        let decode = |bytes: Option<&bytes::Bytes>| -> Result<Option<Draft>> {
            let decoded = bytes.map(|it| kind.decode(it)).transpose();
            let what = || format!("reading {} {}", kind.names().kind, case.name);
            Ok(decoded.with_context(what)?.map(Draft::new))
        };
        let (object, old) = (decode(case.object)?, decode(case.old)?);
        let notes = Notes::observed(None);
        let request = Attributes {
            operation: case.operation,
            kind,
            requested: kind.names(),
            versions: &OneVersion,
            subresource: "",
            namespace: case.namespace,
            name: case.name,
            user: &self.user,
            options: Options::default(),
        };
        let surroundings = Surroundings { lookup: &self.namespaces, authorizer: &self.rights };
        let mut context = Context::new(request, surroundings, &notes);
        if let Some(object) = object {
            context = context.with_object(object, Codec::Kind(kind));
        }
        if let Some(old) = &old {
            context = context.with_old(old);
        }
        let refusal = match self.chain.mutate(&mut context).await {
            Ok(mutated) => self.chain.validate(mutated, &context).await.err(),
            Err(err) => Some(err),
        };
        let report = notes.observer().map(|it| it.report(refusal.as_ref()));
        Ok(report.map(|it| verdicts(&it)).unwrap_or_default())
    }
}

impl Judge for Plugins {
    fn concerns(&self) -> &[Concern] {
        &self.concerns
    }

    fn notes(&self) -> Vec<String> {
        self.notes.clone()
    }

    fn judge<'a>(&'a self, case: Case<'a>) -> BoxFuture<'a, Result<Vec<Verdict>>> {
        Box::pin(async move { self.hold_against(&case).await })
    }
}

/// What expressions ask for that nobody knows afterwards, and what they are told instead.
fn unknowns(wanted: &plan::Policies, user: &User) -> Vec<String> {
    let mut texts: Vec<Vec<u8>> = wanted.validating.iter().map(Resource::encode).collect();
    texts.extend(wanted.mutating.iter().map(Resource::encode));
    let reads = |word: &str| {
        let mut texts = texts.iter().map(|it| String::from_utf8_lossy(it));
        texts.any(|it| it.contains(word))
    };
    let mut notes = Vec::new();
    if reads("userInfo") || reads("authorizer") {
        notes.push(format!(
            "expressions read request.userInfo or authorizer: who made a write is not kept, so \
             all are judged as if {:?} had made them",
            user.name
        ));
    }
    if reads("namespaceObject") || reads("namespaceSelector") || reads("\"paramKind\"") {
        notes.push("namespaces and parameters are taken as they are now".to_owned());
    }
    notes
}

/// All that was refused, rule by rule, and what would be changed.
pub(super) fn verdicts(report: &Report) -> Vec<Verdict> {
    report.steps.iter().flat_map(of_step).collect()
}

fn of_step(step: &Step) -> Vec<Verdict> {
    let refused = |rule: String, message: String| Verdict { rule, message, is_refused: true };
    let mut found = Vec::new();
    for part in &step.parts {
        let By::Policy { name, .. } = &part.by else { continue };
        if let Some(refusal) = &part.refusal {
            let before = found.len();
            for expression in &part.expressions {
                let field = expression.field.trim_start_matches("spec.");
                let field = field.trim_end_matches(".expression");
                let message = expression.message.clone();
                found.extend(message.map(|it| refused(format!("{name}: {field}"), it)));
            }
            if found.len() == before {
                found.push(refused(name.clone(), refusal.message.clone()));
            }
        } else if !part.changes.is_empty() {
            let paths: Vec<&str> = part.changes.iter().map(|it| it.path.as_str()).collect();
            let message = format!("would change {}", paths.join(", "));
            found.push(Verdict { rule: name.clone(), message, is_refused: false });
        }
    }
    if found.is_empty() {
        let refusal = step.refusal.iter().map(|it| &it.message);
        let said = refusal.chain(&step.warnings);
        // Refusals and warnings of one level say the same.
        found.extend(said.take(1).map(|it| refused(step.plugin.clone(), it.clone())));
    }
    found
}

/// As what objects that are there are judged, by what a policy is for.
pub(super) fn as_if(operations: &[String]) -> Option<Operation> {
    let has = |name: &str| operations.iter().any(|it| it == name || it == "*");
    [Operation::Create, Operation::Update, Operation::Delete].into_iter().find(|it| has(it.text()))
}

pub(super) fn built_in(resource: &apimachinery::GroupVersionResource) -> Option<Arc<dyn Kind>> {
    api::kinds().into_iter().find(|it| it.names().gvr() == *resource)
}
