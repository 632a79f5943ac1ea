//! Conditions of a pod: read one, write one. The transition time moves only when the status does.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Pod, PodCondition};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

pub fn get<'a>(pod: &'a Pod, type_: &str) -> Option<&'a PodCondition> {
    pod.status.as_ref()?.conditions.iter().flatten().find(|it| it.type_ == type_)
}

pub fn is_true(pod: &Pod, type_: &str) -> bool {
    get(pod, type_).is_some_and(|it| it.status == "True")
}

/// Adds or replaces the condition of this type. Returns whether the pod changed.
pub fn set(pod: &mut Pod, mut condition: PodCondition, now: Timestamp) -> bool {
    let conditions = pod.status.get_or_insert_default().conditions.get_or_insert_default();
    let Some(existing) = conditions.iter_mut().find(|it| it.type_ == condition.type_) else {
        condition.last_transition_time.get_or_insert(Time(now));
        conditions.push(condition);
        return true;
    };
    if existing.status == condition.status {
        condition.last_transition_time.clone_from(&existing.last_transition_time);
    } else {
        condition.last_transition_time = Some(Time(now));
    }
    let is_changed = *existing != condition;
    *existing = condition;
    is_changed
}
