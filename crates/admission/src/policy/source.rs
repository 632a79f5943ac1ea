//! Policies with their bindings, found by the resource that a request is about.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use api::admissionregistration::{
    MutatingAdmissionPolicyBinding, ValidatingAdmissionPolicyBinding,
};
use k8s_openapi::api::admissionregistration::v1::{
    MatchCondition, MatchResources, ParamKind, ParamRef, Variable,
};

use super::conditions::MatchConditions;
use super::evaluation::Composition;
use crate::attributes::Attributes;
use crate::matching::Constraints;

/// What happens to a request when something is wrong with a policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OnFailure {
    Deny,
    Ignore,
}

impl OnFailure {
    pub(crate) fn of(policy: Option<&str>) -> Self {
        if policy == Some("Ignore") { Self::Ignore } else { Self::Deny }
    }
}

/// A policy, compiled. What it does is `E`.
pub(crate) struct Definition<E> {
    pub(crate) name: String,
    pub(crate) on_failure: OnFailure,
    pub(crate) param_kind: Option<ParamKind>,
    /// Missing if nobody said what it is for, which validation does not let pass.
    pub(crate) constraints: Option<Constraints>,
    pub(crate) composition: Composition,
    pub(crate) conditions: MatchConditions,
    pub(crate) effect: E,
}

/// The part of a policy that both kinds have.
pub(crate) struct Frame<'a> {
    pub(crate) name: &'a str,
    pub(crate) failure_policy: Option<&'a str>,
    pub(crate) param_kind: Option<&'a ParamKind>,
    pub(crate) constraints: Option<&'a MatchResources>,
    pub(crate) conditions: &'a [MatchCondition],
    pub(crate) variables: &'a [Variable],
}

impl<E> Definition<E> {
    pub(crate) fn new(frame: &Frame<'_>, effect: impl FnOnce(&Composition) -> E) -> Self {
        let composition = Composition::new(frame.variables, frame.param_kind.is_some());
        Self {
            name: frame.name.to_owned(),
            on_failure: OnFailure::of(frame.failure_policy),
            param_kind: frame.param_kind.cloned(),
            constraints: frame.constraints.map(Constraints::new),
            conditions: MatchConditions::of_policy(frame.conditions, &composition),
            effect: effect(&composition),
            composition,
        }
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
    hooks: Vec<Arc<Hook<E>>>,
    by_resource: HashMap<String, Vec<usize>>,
    of_all: Vec<usize>,
}

struct Known<E> {
    definitions: BTreeMap<String, Arc<Definition<E>>>,
    bindings: BTreeMap<String, Arc<Binding>>,
}

pub(crate) struct Source<E> {
    known: Mutex<Known<E>>,
    snapshot: RwLock<Arc<Snapshot<E>>>,
}

impl<E> Default for Source<E> {
    fn default() -> Self {
        let known = Known { definitions: BTreeMap::new(), bindings: BTreeMap::new() };
        let snapshot =
            Snapshot { hooks: Vec::new(), by_resource: HashMap::new(), of_all: Vec::new() };
        Self { known: Mutex::new(known), snapshot: RwLock::new(Arc::new(snapshot)) }
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
        let snapshot = Arc::new(known.snapshot());
        *self.snapshot.write().unwrap_or_else(PoisonError::into_inner) = snapshot;
    }

    fn snapshot(&self) -> Arc<Snapshot<E>> {
        self.snapshot.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Whether any policy may be for the request.
    pub(crate) fn has(&self, request: &Attributes<'_>) -> bool {
        let snapshot = self.snapshot();
        !snapshot.of_all.is_empty()
            || snapshot.by_resource.contains_key(&request.kind.names().plural)
    }

    /// Those that may be for the request, by name.
    pub(crate) fn find(&self, request: &Attributes<'_>) -> Vec<Arc<Hook<E>>> {
        let snapshot = self.snapshot();
        let named = snapshot.by_resource.get(&request.kind.names().plural);
        let mut found: Vec<usize> = snapshot.of_all.clone();
        found.extend(named.into_iter().flatten());
        found.sort_unstable();
        found.dedup();
        found.into_iter().map(|index| snapshot.hooks[index].clone()).collect()
    }
}

impl<E> Known<E> {
    fn snapshot(&self) -> Snapshot<E> {
        let mut snapshot =
            Snapshot { hooks: Vec::new(), by_resource: HashMap::new(), of_all: Vec::new() };
        for definition in self.definitions.values() {
            let bindings = self.bindings.values().filter(|it| it.policy == definition.name);
            let bindings: Vec<Arc<Binding>> = bindings.cloned().collect();
            if bindings.is_empty() {
                continue;
            }
            let index = snapshot.hooks.len();
            let resources = definition.constraints.as_ref().map(Constraints::resources);
            match resources.flatten() {
                Some(names) => {
                    for name in names {
                        snapshot.by_resource.entry(name).or_default().push(index);
                    }
                }
                None => snapshot.of_all.push(index),
            }
            snapshot.hooks.push(Arc::new(Hook { definition: definition.clone(), bindings }));
        }
        snapshot
    }
}
