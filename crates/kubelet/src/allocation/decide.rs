//! Whether a pod gets what it asks for, and who is asked first. Pure.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

use api::core::pod::resize::{DEFERRED, INFEASIBLE, PENDING};
use api::core::pod::{qos_class, requests};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Pod, PodSpec};

use super::Allocation;

/// A pod that asks for something else than it was given.
#[derive(Clone, Debug)]
pub(crate) struct Asking {
    pub(crate) pod: Arc<Pod>,
    pub(crate) allocation: Arc<Allocation>,
    /// Since when it waits, if it does.
    pub(crate) since: Option<Timestamp>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Decision {
    Granted,
    Pending(Pending),
}

/// Why not, as the condition `PodResizePending` says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Pending {
    pub(crate) reason: &'static str,
    pub(crate) message: String,
    /// Of the pod that was refused.
    pub(crate) generation: i64,
}

impl Pending {
    /// As a kubelet before this one has said.
    pub(crate) fn shown(pod: &Pod) -> Option<Self> {
        let conditions = pod.status.iter().flat_map(|it| it.conditions.iter().flatten());
        let condition = conditions.into_iter().find(|it| it.type_ == PENDING)?;
        Some(Self {
            reason: if condition.reason.as_deref() == Some(INFEASIBLE) {
                INFEASIBLE
            } else {
                DEFERRED
            },
            message: condition.message.clone().unwrap_or_default(),
            generation: condition.observed_generation.unwrap_or(0),
        })
    }
}

/// `used` is what others take, `allocatable` what there is: `cpu` in thousandths, the rest in whole
/// units.
pub(crate) fn decide(
    pod: &Pod,
    used: &BTreeMap<String, i64>,
    allocatable: &BTreeMap<String, i64>,
) -> Decision {
    let absent = PodSpec::default();
    let wanted = requests(pod.spec.as_ref().unwrap_or(&absent));
    let generation = pod.metadata.generation.unwrap_or(0);
    let of = |map: &BTreeMap<String, i64>, name: &str| map.get(name).copied().unwrap_or(0);
    for name in ["cpu", "memory"] {
        let (requested, capacity) = (of(&wanted, name), of(allocatable, name));
        let used = of(used, name);
        if requested > 0 && used.saturating_add(requested) > capacity {
            let message = format!(
                "Node didn't have enough resource: {name}, requested: {requested}, used: {used}, capacity: {capacity}"
            );
            // Also where there will never be as much: upstream tells that apart for nobody.
            return Decision::Pending(Pending { reason: DEFERRED, message, generation });
        }
    }
    Decision::Granted
}

/// Since when the pod's condition says that it waits.
pub(crate) fn waits_since(pod: &Pod) -> Option<Timestamp> {
    let conditions = pod.status.iter().flat_map(|it| it.conditions.iter().flatten());
    let condition = conditions.into_iter().find(|it| it.type_ == PENDING)?;
    condition.last_transition_time.as_ref().map(|it| it.0)
}

/// Who takes no more goes first; then by priority, by class of service, and by how long they wait.
pub(crate) fn order(asking: &mut [Asking]) {
    asking.sort_by_key(|it| {
        let spec = it.pod.spec.as_ref();
        let priority = spec.and_then(|it| it.priority).unwrap_or(0);
        let is_guaranteed = spec.is_some_and(|it| qos_class(it) == "Guaranteed");
        let since = it.since.unwrap_or(Timestamp::MAX);
        (takes_more(it), Reverse(priority), !is_guaranteed, since)
    });
}

fn takes_more(asking: &Asking) -> bool {
    let of = |it: &Pod| it.spec.as_ref().map(requests).unwrap_or_default();
    let (old, new) = (of(&asking.allocation.apply(&asking.pod)), of(&asking.pod));
    ["cpu", "memory"].into_iter().any(|it| new.get(it) > old.get(it))
}
