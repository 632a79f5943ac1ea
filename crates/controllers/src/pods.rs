//! What controllers ask about a pod.

use std::time::Duration;

use api::core::pod::Pod;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::PodCondition;

use crate::{conditions, labels, owners};

/// Index: the node that a pod is bound to.
pub(crate) const BY_NODE: &str = "node-name";
/// Index: each label of a pod, with its namespace.
pub(crate) const BY_LABEL: &str = "labels";
/// Index: each label of a pod that belongs to no controller, with its namespace.
pub(crate) const ORPHANS_BY_LABEL: &str = "orphans-by-label";

pub(crate) fn index_by_label(pod: &Pod) -> Vec<String> {
    let namespace = owners::namespace(&pod.metadata);
    let pairs = pod.metadata.labels.iter().flatten();
    pairs.map(|(key, value)| labels::index_value(namespace, key, value)).collect()
}

pub(crate) fn index_orphans_by_label(pod: &Pod) -> Vec<String> {
    match owners::controller_of(&pod.metadata) {
        Some(_) => Vec::new(),
        None => index_by_label(pod),
    }
}

pub(crate) fn index_by_node(pod: &Pod) -> Vec<String> {
    node_name(pod).map(str::to_owned).into_iter().collect()
}

pub(crate) fn node_name(pod: &Pod) -> Option<&str> {
    pod.spec.as_ref()?.node_name.as_deref().filter(|it| !it.is_empty())
}

pub(crate) fn phase(pod: &Pod) -> &str {
    pod.status.as_ref().and_then(|it| it.phase.as_deref()).unwrap_or("Pending")
}

pub(crate) fn is_terminal(pod: &Pod) -> bool {
    matches!(phase(pod), "Succeeded" | "Failed")
}

/// Neither finished nor being deleted.
pub(crate) fn is_active(pod: &Pod) -> bool {
    !is_terminal(pod) && !owners::is_deleting(&pod.metadata)
}

pub(crate) fn condition<'a>(pod: &'a Pod, kind: &str) -> Option<&'a PodCondition> {
    pod.status.as_ref()?.conditions.iter().flatten().find(|it| it.type_ == kind)
}

pub(crate) fn is_ready(pod: &Pod) -> bool {
    condition(pod, "Ready").is_some_and(|it| it.status == "True")
}

/// Since when the pod is ready, if it is.
pub(crate) fn ready_since(pod: &Pod) -> Option<Timestamp> {
    let ready = condition(pod, "Ready").filter(|it| it.status == "True")?;
    ready.last_transition_time.as_ref().map(|it| it.0)
}

/// How long until a ready pod has been ready for `min_ready`: zero when it is available now, absent
/// when it is not ready.
pub(crate) fn available_in(pod: &Pod, min_ready: Duration, now: Timestamp) -> Option<Duration> {
    if !is_ready(pod) {
        return None;
    }
    if min_ready.is_zero() {
        return Some(Duration::ZERO);
    }
    let since = ready_since(pod)?;
    Some(remaining(since, min_ready, now))
}

/// What is left of `period` that began at `since`.
pub(crate) fn remaining(since: Timestamp, period: Duration, now: Timestamp) -> Duration {
    let period = SignedDuration::try_from(period).unwrap_or(SignedDuration::MAX);
    let left = period.saturating_sub(now.duration_since(since));
    Duration::try_from(left).unwrap_or(Duration::ZERO)
}

pub(crate) fn restarts(pod: &Pod) -> i32 {
    let statuses = pod.status.iter().flat_map(|it| it.container_statuses.iter().flatten());
    statuses.map(|it| it.restart_count).max().unwrap_or(0)
}

/// A strategic merge patch of the status that says why the pod is about to be deleted.
pub(crate) fn disruption_patch(
    pod: &Pod,
    reason: &str,
    message: &str,
    now: Timestamp,
) -> bytes::Bytes {
    let patch = serde_json::json!({
        "metadata": {"uid": pod.metadata.uid},
        "status": {"conditions": [{
            "type": "DisruptionTarget",
            "status": "True",
            "reason": reason,
            "message": message,
            "lastTransitionTime": conditions::time(now),
        }]},
    });
    patch.to_string().into()
}
