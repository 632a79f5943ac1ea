//! Which pods nobody will ever clean up. Pure.

use std::sync::Arc;
use std::time::Duration;

use api::core::node::NodeView;
use api::core::pod::PodView;
use apimachinery::ObjectKey;
use jiff::Timestamp;

use crate::pods;

/// How long a node must be missing before its pods are given up.
pub(crate) const QUARANTINE: Duration = Duration::from_secs(40);

/// How the node that a pod is bound to stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// The pod is bound to none.
    Nowhere,
    /// There is none of that name, as far as the cache knows.
    Missing,
    Present,
    /// Somebody has said that it is off, and it is not ready.
    OutOfService,
}

const OUT_OF_SERVICE: &str = "node.kubernetes.io/out-of-service";

pub(crate) fn place(pod: &PodView, node: Option<&NodeView>) -> Place {
    if pod.node().is_none() {
        return Place::Nowhere;
    }
    match node {
        None => Place::Missing,
        Some(node) if is_out_of_service(node) => Place::OutOfService,
        Some(_) => Place::Present,
    }
}

pub(crate) fn is_out_of_service(node: &NodeView) -> bool {
    !node.is_ready() && node.taints.iter().any(|it| it.key == OUT_OF_SERVICE)
}

/// Why a pod is deleted by force, as metrics name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reason {
    /// There are too many finished ones.
    Terminated,
    /// Deleted before it was bound: no kubelet will confirm it.
    Unscheduled,
    /// Its node is gone, as far as the cache knows.
    Orphaned,
    /// Its kubelet will not come back to confirm it.
    OutOfService,
}

impl Reason {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Terminated => "terminated",
            Self::Unscheduled => "unscheduled",
            Self::Orphaned => "orphaned",
            Self::OutOfService => "out-of-service",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Keep,
    /// Its node is missing, but not for long enough.
    Wait(Duration),
    Delete(Reason),
}

pub(crate) fn plan(
    pod: &PodView,
    place: Place,
    missing_since: Timestamp,
    now: Timestamp,
) -> Verdict {
    match place {
        Place::Nowhere if pod.meta.is_deleting => Verdict::Delete(Reason::Unscheduled),
        Place::OutOfService if pod.meta.is_deleting => Verdict::Delete(Reason::OutOfService),
        Place::Nowhere | Place::OutOfService | Place::Present => Verdict::Keep,
        Place::Missing => match pods::remaining(missing_since, QUARANTINE, now) {
            Duration::ZERO => Verdict::Delete(Reason::Orphaned),
            left => Verdict::Wait(left),
        },
    }
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
