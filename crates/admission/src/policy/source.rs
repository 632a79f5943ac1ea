//! Policies with their bindings, found by the resource that a request is about.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, LazyLock, Mutex, PoisonError, RwLock};

use api::admissionregistration::{
    MutatingAdmissionPolicyBinding, ValidatingAdmissionPolicyBinding,
};
use k8s_openapi::api::admissionregistration::v1::{
    MatchCondition, MatchResources, ParamKind, ParamRef, Variable,
};

use super::conditions::MatchConditions;
use super::counts::count;
use super::evaluation::Composition;
use crate::attributes::Attributes;
use crate::matching::Constraints;
use crate::vital::is_vital;

/// What happens to a request when something is wrong with a policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OnFailure {
    Deny,
    Ignore,
    /// The policy fails closed, and the cluster lives on the request (`vital`): it passes, and the
    /// log says so.
    Spare,
}

impl OnFailure {
    fn of(policy: Option<&str>) -> Self {
        if policy == Some("Ignore") { Self::Ignore } else { Self::Deny }
    }

    /// Why a failure refuses nothing; `None`: it does.
    pub(crate) fn excuse(self) -> Option<&'static str> {
        match self {
            Self::Deny => None,
            Self::Ignore => Some("failurePolicy Ignore"),
            Self::Spare => Some("the cluster lives on this request, whatever the failurePolicy"),
        }
    }
}

/// A policy. What it does is `E`.
pub(crate) struct Definition<E> {
    pub(crate) name: String,
    /// As it says itself.
    on_failure: OnFailure,
    pub(crate) param_kind: Option<ParamKind>,
    /// Missing if nobody said what it is for, which validation does not let pass.
    pub(crate) constraints: Option<Constraints>,
    /// Of ten thousand policies most are for nothing that is written: what a policy says is compiled
    /// when the first request comes that it is for.
    pub(crate) rules: LazyLock<Rules<E>, Compile<E>>,
}

type Compile<E> = Box<dyn FnOnce() -> Rules<E> + Send>;

/// What a policy says, compiled.
pub(crate) struct Rules<E> {
    pub(crate) composition: Composition,
    pub(crate) conditions: MatchConditions,
    pub(crate) effect: E,
}

impl<E> Rules<E> {
    pub(crate) fn new(
        (variables, has_params): (Option<&Vec<Variable>>, bool),
        conditions: Option<&Vec<MatchCondition>>,
        effect: impl FnOnce(&Composition) -> E,
    ) -> Self {
        let composition = Composition::new(variables.map_or(&[][..], Vec::as_slice), has_params);
        let conditions = conditions.map_or(&[][..], Vec::as_slice);
        Self {
            conditions: MatchConditions::of_policy(conditions, &composition),
            effect: effect(&composition),
            composition,
        }
    }
}

/// The part of a policy that both kinds have, though their types are two.
pub(crate) struct Frame<'a> {
    pub(crate) name: &'a str,
    pub(crate) failure_policy: Option<&'a str>,
    pub(crate) param_kind: Option<&'a ParamKind>,
    pub(crate) constraints: Option<&'a MatchResources>,
}

/// The definition of a policy that says something, with the rules that `$rules` makes of its spec.
macro_rules! define {
    ($policy:ident, $rules:path) => {{
        let spec = $policy.spec.as_ref()?;
        let frame = $crate::policy::source::Frame {
            name: $policy.metadata.name.as_deref().unwrap_or_default(),
            failure_policy: spec.failure_policy.as_deref(),
            param_kind: spec.param_kind.as_ref(),
            constraints: spec.match_constraints.as_ref(),
        };
        let spec = spec.clone();
        Some(Definition::new(&frame, move || $rules(&spec)))
    }};
}
pub(crate) use define;

impl<E> Definition<E> {
    pub(crate) fn new(
        frame: &Frame<'_>,
        compile: impl FnOnce() -> Rules<E> + Send + 'static,
    ) -> Self {
        Self {
            name: frame.name.to_owned(),
            on_failure: OnFailure::of(frame.failure_policy),
            param_kind: frame.param_kind.cloned(),
            constraints: frame.constraints.map(Constraints::new),
            rules: LazyLock::new(Box::new(|| {
                count(|it| it.compiled += 1);
                compile()
            })),
        }
    }

    /// What happens to this request when something is wrong with the policy.
    pub(crate) fn on_failure(&self, request: &Attributes<'_>) -> OnFailure {
        match self.on_failure {
            OnFailure::Deny if is_vital(request) => OnFailure::Spare,
            own => own,
        }
    }

    /// Tells of a request that was spared: who wrote the policy believes that it is kept.
    pub(crate) fn spared(&self, kind: &'static str, binding: Option<&str>, why: &str) {
        tracing::warn!(
            kind,
            policy = self.name,
            binding = binding.unwrap_or_default(),
            error = why,
            "failed to evaluate a policy, failing open for a request that the cluster lives on"
        );
    }
}

/// Where a policy applies, and with what.
pub(crate) struct Binding {
    pub(crate) name: String,
    pub(crate) policy: String,
    /// Beside those of the policy.
    pub(crate) constraints: Option<Constraints>,
    pub(crate) param_ref: Option<ParamRef>,
    /// `Deny`, `Warn`, `Audit`; of validating policies alone.
    pub(crate) actions: Vec<String>,
}

impl Binding {
    pub(crate) fn validating(binding: &ValidatingAdmissionPolicyBinding) -> Self {
        let spec = &binding.spec;
        Self {
            name: binding.metadata.name.clone().unwrap_or_default(),
            policy: spec.policy_name.clone(),
            constraints: spec.match_resources.as_ref().map(Constraints::new),
            param_ref: spec.param_ref.clone(),
            actions: spec.validation_actions.clone(),
        }
    }

    pub(crate) fn mutating(binding: &MutatingAdmissionPolicyBinding) -> Option<Self> {
        let spec = binding.spec.as_ref()?;
        Some(Self {
            name: binding.metadata.name.clone().unwrap_or_default(),
            policy: spec.policy_name.clone().unwrap_or_default(),
            constraints: spec.match_resources.as_ref().map(Constraints::new),
            param_ref: spec.param_ref.clone(),
            actions: Vec::new(),
        })
    }
}

/// A policy with all its bindings, of which there is at least one.
pub(crate) struct Hook<E> {
    pub(crate) definition: Arc<Definition<E>>,
    pub(crate) bindings: Vec<Arc<Binding>>,
}

/// All hooks by name, and which of them are for a resource. The group is not part of the key:
/// policies are also for the same resource in other groups.
struct Snapshot<E> {
    hooks: Vec<Hook<E>>,
    /// Of each hook the operations that it may be for: most that are for a resource are not for all
    /// that is done to it.
    operations: Vec<u8>,
    by_resource: HashMap<String, Vec<usize>>,
    of_all: Vec<usize>,
}

struct Known<E> {
    definitions: BTreeMap<String, Arc<Definition<E>>>,
    bindings: BTreeMap<String, Arc<Binding>>,
}

pub(crate) struct Source<E> {
    known: Mutex<Known<E>>,
    /// Of what is known; made when it is first asked for after a change.
    snapshot: RwLock<Option<Arc<Snapshot<E>>>>,
}

impl<E> Default for Source<E> {
    fn default() -> Self {
        let known = Known { definitions: BTreeMap::new(), bindings: BTreeMap::new() };
        Self { known: Mutex::new(known), snapshot: RwLock::new(None) }
    }
}

impl<E> Source<E> {
    pub(super) fn set_definition(&self, name: &str, definition: Option<Definition<E>>) {
        self.change(|known| match definition {
            Some(it) => known.definitions.insert(name.to_owned(), Arc::new(it)).is_some(),
            None => known.definitions.remove(name).is_some(),
        });
    }

    pub(super) fn set_binding(&self, name: &str, binding: Option<Binding>) {
        self.change(|known| match binding {
            Some(it) => known.bindings.insert(name.to_owned(), Arc::new(it)).is_some(),
            None => known.bindings.remove(name).is_some(),
        });
    }

    fn change(&self, change: impl FnOnce(&mut Known<E>) -> bool) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        change(&mut known);
        *self.snapshot.write().unwrap_or_else(PoisonError::into_inner) = None;
    }

    fn snapshot(&self) -> Arc<Snapshot<E>> {
        let made = self.snapshot.read().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(made) = made {
            return made;
        }
        // Nobody changes anything while it is made.
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let mut snapshot = self.snapshot.write().unwrap_or_else(PoisonError::into_inner);
        snapshot.get_or_insert_with(|| Arc::new(known.snapshot())).clone()
    }

    /// Whether any policy may be for the request.
    pub(crate) fn has(&self, request: &Attributes<'_>) -> bool {
        let snapshot = self.snapshot();
        !snapshot.of_all.is_empty()
            || snapshot.by_resource.contains_key(&request.kind.names().plural)
    }

    /// Those that may be for the request, by name.
    pub(crate) fn find(&self, request: &Attributes<'_>) -> Candidates<E> {
        let snapshot = self.snapshot();
        let named = snapshot.by_resource.get(&request.kind.names().plural);
        let is_for = |it: &&usize| snapshot.operations[**it] & request.operation.bit() != 0;
        let of_all = snapshot.of_all.iter();
        let mut found: Vec<usize> =
            of_all.chain(named.into_iter().flatten()).filter(is_for).copied().collect();
        found.sort_unstable();
        found.dedup();
        count(|it| it.found += found.len());
        Candidates { snapshot, found }
    }
}

/// Policies that may be for a request, as they were when it was asked.
pub(crate) struct Candidates<E> {
    snapshot: Arc<Snapshot<E>>,
    found: Vec<usize>,
}

impl<E> Candidates<E> {
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Hook<E>> {
        self.found.iter().map(|index| &self.snapshot.hooks[*index])
    }
}

impl<E> Known<E> {
    fn snapshot(&self) -> Snapshot<E> {
        let (hooks, operations, of_all) = Default::default();
        let by_resource = HashMap::new();
        let mut snapshot = Snapshot { hooks, operations, by_resource, of_all };
        let mut bound: HashMap<&str, Vec<Arc<Binding>>> = HashMap::new();
        for binding in self.bindings.values() {
            bound.entry(&binding.policy).or_default().push(binding.clone());
        }
        count(|it| it.sorted += self.definitions.len());
        for definition in self.definitions.values() {
            let Some(bindings) = bound.remove(definition.name.as_str()) else { continue };
            let index = snapshot.hooks.len();
            let operations = definition.constraints.as_ref().map(Constraints::operations);
            snapshot.operations.push(operations.unwrap_or(u8::MAX));
            let resources = definition.constraints.as_ref().map(Constraints::resources);
            match resources.flatten() {
                Some(names) => {
                    for name in names {
                        snapshot.by_resource.entry(name).or_default().push(index);
                    }
                }
                None => snapshot.of_all.push(index),
            }
            snapshot.hooks.push(Hook { definition: definition.clone(), bindings });
        }
        snapshot
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use apimachinery::User;
    use k8s_openapi::api::admissionregistration::v1::MatchResources;
    use serde_json::json;

    use super::{Binding, Definition, Frame, Rules, Source};
    use crate::attributes::Operation;
    use crate::plugins::fixture::{Case, Nobody, Objects};

    fn define(source: &Source<()>, name: &str, resource: &str, n_compiled: &Arc<AtomicUsize>) {
        let constraints: MatchResources = serde_json::from_value(json!({"resourceRules": [{
            "apiGroups": ["*"], "apiVersions": ["*"], "operations": ["*"], "resources": [resource],
        }]}))
        .expect("constraints");
        let (failure_policy, param_kind) = (None, None);
        let frame = Frame { name, failure_policy, param_kind, constraints: Some(&constraints) };
        let counter = n_compiled.clone();
        let definition = Definition::new(&frame, move || {
            counter.fetch_add(1, Ordering::Relaxed);
            Rules::new((None, false), None, |_| ())
        });
        source.set_definition(name, Some(definition));
        let binding = Binding {
            name: name.to_owned(),
            policy: name.to_owned(),
            constraints: None,
            param_ref: None,
            actions: Vec::new(),
        };
        source.set_binding(name, Some(binding));
    }

    /// To sort all of them out for each of the 20,000 changes would take hours.
    #[test]
    fn ten_thousand_policies_of_others_are_neither_looked_at_nor_compiled() {
        let (source, n_compiled) = (Source::<()>::default(), Arc::default());
        for index in 0..10_000 {
            define(&source, &format!("p{index}"), "configmaps", &n_compiled);
        }
        define(&source, "own", "pods", &n_compiled);
        let user = User::new("alice", &[]);
        let case = Case::of(Operation::Create, "/pods", &user);
        case.with((&Objects::default(), &Nobody), (None, None), |context| {
            let found = source.find(&context.request);
            let names: Vec<&str> = found.iter().map(|it| it.definition.name.as_str()).collect();
            assert_eq!(names, ["own"]);
            assert_eq!(n_compiled.load(Ordering::Relaxed), 0);
            for _ in 0..2 {
                found.iter().for_each(|it| it.definition.rules.effect);
            }
            assert_eq!(n_compiled.load(Ordering::Relaxed), 1, "once");
            // What goes is gone for the next request, and stays for this one.
            source.set_definition("own", None);
            assert_eq!(source.find(&context.request).iter().count(), 0);
            assert_eq!(found.iter().count(), 1);
        });
    }
}
