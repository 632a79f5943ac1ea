//! Whether a PodGroup may go. Pure.

use api::Identified as _;
use api::core::pod::PodView;
use api::scheduling::PodGroup;
use apimachinery::ObjectKey;

pub(super) const FINALIZER: &str = "scheduling.k8s.io/podgroup-protection";

pub(super) fn group_of(pod: &PodView) -> Option<ObjectKey> {
    let name = pod.spec.pod_group.as_str();
    (!name.is_empty()).then(|| ObjectKey::new(pod.namespace(), name))
}

/// The group without what holds it, once nobody runs in it.
pub(super) fn plan(group: &PodGroup, n_pods: usize) -> Option<PodGroup> {
    let finalizers = group.metadata.finalizers.as_deref().unwrap_or_default();
    let is_held = finalizers.iter().any(|it| it == FINALIZER);
    if group.metadata.deletion_timestamp.is_none() || !is_held || n_pods > 0 {
        return None;
    }
    let mut released = group.clone();
    released.metadata.finalizers.iter_mut().for_each(|it| it.retain(|it| it != FINALIZER));
    Some(released)
}
