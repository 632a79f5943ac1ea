//! Which pods nobody will ever clean up. Pure.

use std::sync::Arc;
use std::time::Duration;

use api::core::pod::PodView;
use apimachinery::ObjectKey;
use jiff::Timestamp;

use crate::pods;

/// How long a node must be missing before its pods are given up.
pub(crate) const QUARANTINE: Duration = Duration::from_secs(40);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Keep,
    /// Deleted before it was bound: no kubelet will confirm it.
    DeleteUnscheduled,
    /// Its node is missing, but not for long enough.
    Wait(Duration),
    /// Its node is gone, as far as the cache knows.
    DeleteOrphan,
}

pub(crate) fn plan(
    pod: &PodView,
    has_node: bool,
    missing_since: Timestamp,
    now: Timestamp,
) -> Verdict {
    if pod.node().is_none() {
        return match pod.meta.is_deleting {
            true => Verdict::DeleteUnscheduled,
            false => Verdict::Keep,
        };
    }
    if has_node {
        return Verdict::Keep;
    }
    let left = pods::remaining(missing_since, QUARANTINE, now);
    if left.is_zero() { Verdict::DeleteOrphan } else { Verdict::Wait(left) }
}

/// The finished pods above the threshold, the oldest first.
pub(crate) fn excess(mut finished: Vec<Arc<PodView>>, threshold: usize) -> Vec<Arc<PodView>> {
    let excess = finished.len().saturating_sub(threshold);
    finished.sort_by(|one, two| age_key(one).cmp(&age_key(two)));
    finished.truncate(excess);
    finished
}

fn age_key(pod: &PodView) -> (Option<Timestamp>, &ObjectKey) {
    (pod.created, &pod.meta.key)
}
