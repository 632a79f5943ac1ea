//! Who uses a class of volume attributes. Pure.

use std::sync::Arc;

use api::Identified as _;
use api::core::{PersistentVolume, PersistentVolumeClaim};

pub(super) const FINALIZER: &str = "kubernetes.io/vac-protection";

/// The class that a claim asks for, the one that its volume has, and the one that its volume is
/// being given; each once.
pub(super) fn classes_of_claim(claim: &PersistentVolumeClaim) -> Vec<String> {
    let wanted = claim.spec.as_ref().and_then(|it| it.volume_attributes_class_name.clone());
    let status = claim.status.as_ref();
    let current = status.and_then(|it| it.current_volume_attributes_class_name.clone());
    let modified = status.and_then(|it| it.modify_volume_status.as_ref());
    let target = modified.and_then(|it| it.target_volume_attributes_class_name.clone());
    let all = [wanted, current, target].into_iter().flatten();
    let mut classes: Vec<String> = all.filter(|it| !it.is_empty()).collect();
    classes.sort();
    classes.dedup();
    classes
}

pub(super) fn classes_of_volume(volume: &PersistentVolume) -> Vec<String> {
    let class = volume.spec.as_ref().and_then(|it| it.volume_attributes_class_name.clone());
    class.filter(|it| !it.is_empty()).into_iter().collect()
}

/// Those who name a class.
pub(super) fn users(
    claims: &[Arc<PersistentVolumeClaim>],
    volumes: &[Arc<PersistentVolume>],
) -> Vec<String> {
    let claims = claims.iter().map(|it| it.key().to_string());
    claims.chain(volumes.iter().map(|it| it.key().name)).collect()
}
