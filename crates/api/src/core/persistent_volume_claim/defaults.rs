//! Values that the server fills in.

use k8s_openapi::api::core::v1::PersistentVolumeClaimSpec;

use super::PersistentVolumeClaim;
use crate::core::volume_sources::defaults::fill;
use crate::quantities::round_up;

/// For claims and for templates of claims, which have a status as well.
pub(crate) fn apply(claim: &mut PersistentVolumeClaim) {
    apply_to_spec(claim.spec.get_or_insert_default());
    let status = claim.status.get_or_insert_default();
    fill(&mut status.phase, "Pending");
    for list in [&mut status.capacity, &mut status.allocated_resources].into_iter().flatten() {
        round_up(list);
    }
}

/// Also of the claims that are made for pods and replicas.
pub(crate) fn apply_to_spec(spec: &mut PersistentVolumeClaimSpec) {
    spec.volume_mode.get_or_insert_with(|| "Filesystem".to_owned());
    // Written even when empty, as clients have always seen it.
    let resources = spec.resources.get_or_insert_default();
    for list in [&mut resources.limits, &mut resources.requests].into_iter().flatten() {
        round_up(list);
    }
}
