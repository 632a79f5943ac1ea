//! What controllers ask about a pod.

use std::time::Duration;

use api::Identified as _;
use api::core::pod::PodView;
use apimachinery::ObjectKey;
use jiff::{SignedDuration, Timestamp};

use crate::{conditions, labels};

/// Index: the node that a pod is bound to.
pub(crate) const BY_NODE: &str = "node-name";
/// Index: each label of a pod, with its namespace.
pub(crate) const BY_LABEL: &str = "labels";
/// Index: each label of a pod that belongs to no controller, with its namespace.
pub(crate) const ORPHANS_BY_LABEL: &str = "orphans-by-label";
/// Index: the claims to devices that a pod has, with their namespace.
pub(crate) const BY_RESOURCE_CLAIM: &str = "resource-claim";
/// Index: the claims that a pod's volumes are, with their namespace.
pub(crate) const BY_VOLUME_CLAIM: &str = "volume-claim";

pub(crate) fn index_by_label(pod: &PodView) -> Vec<String> {
    let pairs = pod.meta.labels.iter();
    pairs.map(|(key, value)| labels::index_value(pod.namespace(), key, value)).collect()
}

pub(crate) fn index_orphans_by_label(pod: &PodView) -> Vec<String> {
    match pod.controller() {
        Some(_) => Vec::new(),
        None => index_by_label(pod),
    }
}

pub(crate) fn index_by_resource_claim(pod: &PodView) -> Vec<String> {
    let claims = pod.claims.iter().flat_map(|it| it.claims.iter());
    let names = claims.filter_map(|it| it.resolved());
    names.map(|it| ObjectKey::new(pod.namespace(), it).to_string()).collect()
}

pub(crate) fn index_by_volume_claim(pod: &PodView) -> Vec<String> {
    let names = pod.volume_claims.iter().flat_map(|it| it.names());
    names.map(|it| ObjectKey::new(pod.namespace(), it).to_string()).collect()
}

pub(crate) fn index_by_node(pod: &PodView) -> Vec<String> {
    pod.node().map(str::to_owned).into_iter().collect()
}

/// How long until a ready pod has been ready for `min_ready`: zero when it is available now, absent
/// when it is not ready.
pub(crate) fn available_in(pod: &PodView, min_ready: Duration, now: Timestamp) -> Option<Duration> {
    if !pod.is_ready {
        return None;
    }
    if min_ready.is_zero() {
        return Some(Duration::ZERO);
    }
    Some(remaining(pod.ready_since?, min_ready, now))
}

/// What is left of `period` that began at `since`.
pub(crate) fn remaining(since: Timestamp, period: Duration, now: Timestamp) -> Duration {
    let period = SignedDuration::try_from(period).unwrap_or(SignedDuration::MAX);
    let left = period.saturating_sub(now.duration_since(since));
    Duration::try_from(left).unwrap_or(Duration::ZERO)
}

/// A strategic merge patch of the status that says why the pod is about to be deleted.
pub(crate) fn disruption_patch(
    pod: &PodView,
    reason: &str,
    message: &str,
    now: Timestamp,
) -> bytes::Bytes {
    let patch = serde_json::json!({
        "metadata": {"uid": pod.uid()},
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
