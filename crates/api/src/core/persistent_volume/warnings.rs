//! What is allowed in a volume but will not do for long, or at all.

use apimachinery::field::Path;

use super::{CLASS_ANNOTATION, PersistentVolume, validation::MOUNT_OPTIONS_ANNOTATION};
use crate::core::node_labels;

const DEPRECATED_ANNOTATIONS: [(&str, &str); 2] = [
    (CLASS_ANNOTATION, "deprecated since v1.8; use \"storageClassName\" attribute instead"),
    (MOUNT_OPTIONS_ANNOTATION, "deprecated since v1.31; use \"mountOptions\" attribute instead"),
];

pub(super) fn of(volume: &PersistentVolume) -> Vec<String> {
    let mut warnings = Vec::new();
    let annotations = volume.metadata.annotations.as_ref();
    for (key, why) in DEPRECATED_ANNOTATIONS {
        if annotations.is_some_and(|it| it.contains_key(key)) {
            let path = Path::new("metadata").child("annotations").key(key);
            warnings.push(format!("{path}: {why}"));
        }
    }
    let Some(spec) = &volume.spec else { return warnings };
    let path = Path::new("spec");
    if spec.persistent_volume_reclaim_policy.as_deref() == Some("Recycle") {
        let path = path.child("persistentVolumeReclaimPolicy");
        warnings.push(format!(
            "{path}: The Recycle reclaim policy is deprecated. Instead, the recommended approach is to use dynamic provisioning."
        ));
    }
    let required = spec.node_affinity.as_ref().and_then(|it| it.required.as_ref());
    let path_terms = path.child("nodeAffinity").child("required").child("nodeSelectorTerms");
    for (index, term) in required.iter().flat_map(|it| &it.node_selector_terms).enumerate() {
        warnings.extend(node_labels::warnings_of_term(term, &path_terms.index(index)));
    }
    for (is_used, field, why) in [
        (spec.cephfs.is_some(), "cephfs", "deprecated in v1.28, non-functional in v1.31+"),
        (
            spec.photon_persistent_disk.is_some(),
            "photonPersistentDisk",
            "deprecated in v1.11, non-functional in v1.16+",
        ),
        (spec.scale_io.is_some(), "scaleIO", "deprecated in v1.16, non-functional in v1.22+"),
        (spec.storageos.is_some(), "storageOS", "deprecated in v1.22, non-functional in v1.25+"),
        (spec.glusterfs.is_some(), "glusterfs", "deprecated in v1.25, non-functional in v1.26+"),
        (spec.rbd.is_some(), "rbd", "deprecated in v1.28, non-functional in v1.31+"),
    ] {
        if is_used {
            warnings.push(format!("{}: {why}", path.child(field)));
        }
    }
    warnings
}
