//! Whether a PodGroup may go. Pure.

use api::Identified as _;
use api::core::pod::PodView;
use api::scheduling::PodGroup;
use apimachinery::ObjectKey;

use crate::finalizers;

pub(super) const FINALIZER: &str = "scheduling.k8s.io/podgroup-protection";

pub(super) fn group_of(pod: &PodView) -> Option<ObjectKey> {
    let name = pod.spec.pod_group.as_str();
    (!name.is_empty()).then(|| ObjectKey::new(pod.namespace(), name))
}

/// The group without what holds it, once nobody runs in it.
pub(super) fn plan(group: &PodGroup, n_pods: usize) -> Option<PodGroup> {
    let is_over = finalizers::is_kept(&group.metadata, FINALIZER) && n_pods == 0;
    is_over.then(|| finalizers::released(group, FINALIZER))
}
