//! A pod's priority is computed from its class, never taken from the client; and there is one class
//! at most that pods have which name none.

#[cfg(test)]
mod tests;

use std::future::ready;
use std::sync::Arc;

use api::core::Pod;
use api::scheduling::PriorityClass;
use api::scheduling::priority_class::SYSTEM;
use api::{Lookup, Resource as _};
use apimachinery::{ApiError, GroupResource, ObjectKey};
use k8s_openapi::api::core::v1::PodSpec;

use crate::attributes::{Attributes, Operation};
use crate::chain::{Admitting, Phase, Plugin, Validating};
use crate::context::Context;

const POLICY: &str = "PreemptLowerPriority";
/// In the text of a class without it there is no default to be read: every pod without a class
/// asks for it.
const MARK: &[u8] = b"\"globalDefault\":true";

pub struct Priority;

/// What a class gives its pods.
struct Computed {
    /// Empty: none.
    class: String,
    priority: i32,
    policy: String,
}

impl Computed {
    fn of(class: &PriorityClass) -> Self {
        let policy = class.preemption_policy.clone().unwrap_or_else(|| POLICY.to_owned());
        let name = class.metadata.name.clone().unwrap_or_default();
        Self { class: name, priority: class.value.unwrap_or(0), policy }
    }

    /// By the class that is named, or the default one, or no class at all.
    fn find(name: &str, lookup: &(dyn Lookup + 'static)) -> Result<Self, String> {
        let plain = |class: &str, priority| Self {
            class: class.to_owned(),
            priority,
            policy: POLICY.to_owned(),
        };
        if name.is_empty() {
            return Ok(default_class(lookup).map_or_else(|| plain("", 0), |it| Self::of(&it)));
        }
        if let Some(class) = lookup.get::<PriorityClass>(&ObjectKey::cluster(name)) {
            return Ok(Self::of(&class));
        }
        // Those of the system are there even where their objects are not.
        let of_system = SYSTEM.iter().find(|it| it.0 == name);
        of_system
            .map(|(name, value)| plain(name, *value))
            .ok_or_else(|| format!("no PriorityClass with name {name} was found"))
    }
}

/// Of several, which only a race can leave, the lowest.
fn default_class(lookup: &(dyn Lookup + 'static)) -> Option<Arc<PriorityClass>> {
    let resource = GroupResource::new(PriorityClass::FACTS.group, PriorityClass::FACTS.plural);
    let all = lookup.list(&resource, None);
    let marked = all.iter().filter(|it| it.bytes.windows(MARK.len()).any(|it| it == MARK));
    let classes = marked.filter_map(|it| it.shared::<PriorityClass>().ok());
    let defaults = classes.filter(|it| it.global_default == Some(true));
    defaults.min_by_key(|it| (it.value, it.metadata.name.clone()))
}

fn fill(spec: &mut PodSpec, lookup: &(dyn Lookup + 'static)) -> Result<(), String> {
    let name = spec.priority_class_name.as_deref().unwrap_or_default();
    let Computed { class, priority, policy } = Computed::find(name, lookup)?;
    if let Some(given) = spec.priority.filter(|it| *it != priority) {
        return Err(format!(
            "the integer value of priority ({given}) must not be provided in pod spec; \
             priority admission controller computed {priority} from the given PriorityClass name"
        ));
    }
    if let Some(given) = spec.preemption_policy.as_deref().filter(|it| *it != policy) {
        return Err(format!(
            "the string value of PreemptionPolicy ({given}) must not be provided in pod spec; \
             priority admission controller computed {policy} from the given PriorityClass name"
        ));
    }
    spec.priority_class_name = Some(class).filter(|it| !it.is_empty());
    (spec.priority, spec.preemption_policy) = (Some(priority), Some(policy));
    Ok(())
}

fn admit_pod(context: &mut Context<'_>) -> Result<(), ApiError> {
    let stored = context.old_as::<Pod>().and_then(|it| it.spec.as_ref());
    let stored = stored.map(|it| (it.priority, it.preemption_policy.clone()));
    let (operation, lookup) = (context.request.operation, context.lookup);
    let Some(spec) = context.object_as_mut::<Pod>().and_then(|it| it.spec.as_mut()) else {
        return Ok(());
    };
    match (operation, stored) {
        (Operation::Create, _) => fill(spec, lookup).map_err(|why| context.forbidden(&why)),
        // Neither can change; a client that left them out means what is there.
        (Operation::Update, Some((priority, policy))) => {
            spec.priority = spec.priority.or(priority);
            spec.preemption_policy = spec.preemption_policy.take().or(policy);
            Ok(())
        }
        _ => Ok(()),
    }
}

/// There is one default.
fn admit_class(context: &Context<'_>) -> Result<(), ApiError> {
    let class = context.object_as::<PriorityClass>();
    let Some(class) = class.filter(|it| it.global_default == Some(true)) else { return Ok(()) };
    let Some(other) = default_class(context.lookup) else { return Ok(()) };
    let is_itself = context.request.operation == Operation::Update
        && other.metadata.name == class.metadata.name;
    if is_itself {
        return Ok(());
    }
    let name = other.metadata.name.as_deref().unwrap_or_default();
    let why = "is already marked as default. Only one default can exist";
    Err(context.forbidden(&format!("PriorityClass {name} {why}")))
}

impl Plugin for Priority {
    fn name(&self) -> &'static str {
        "Priority"
    }

    fn handles(&self, phase: Phase, request: &Attributes<'_>) -> bool {
        matches!(request.operation, Operation::Create | Operation::Update)
            && match phase {
                Phase::Mutate => request.is("", "pods", ""),
                Phase::Validate => request.is("scheduling.k8s.io", "priorityclasses", ""),
            }
    }

    fn admit<'a>(&'a self, context: &'a mut Context<'_>) -> Admitting<'a> {
        Box::pin(ready(admit_pod(context)))
    }

    fn validate<'a>(&'a self, context: &'a Context<'_>) -> Validating<'a> {
        Box::pin(ready(admit_class(context).map(|()| None)))
    }
}
