//! What a claim is to be filled from: `dataSource`, which knows claims and snapshots, and
//! `dataSourceRef`, which came later and knows everything. Both are kept equal.

use k8s_openapi::api::core::v1::{
    PersistentVolumeClaimSpec, TypedLocalObjectReference, TypedObjectReference,
};

use crate::check::text;

/// Before a claim is checked and stored. `stored` is what is there of it already.
pub(super) fn prepare(
    spec: &mut PersistentVolumeClaimSpec,
    stored: Option<&PersistentVolumeClaimSpec>,
) {
    let has_ref = stored.is_some_and(|it| it.data_source_ref.is_some());
    let has_any = has_ref || stored.is_some_and(|it| it.data_source.is_some());
    // Other namespaces are upstream's gate CrossNamespaceVolumeDataSource, which is off.
    if !has_ref && spec.data_source_ref.as_ref().is_some_and(is_elsewhere) {
        spec.data_source_ref = None;
    }
    // What it does not know it has always ignored.
    let is_known = spec.data_source.as_ref().is_some_and(is_claim_or_snapshot);
    if !has_any && spec.data_source_ref.is_none() && !is_known {
        spec.data_source = None;
    }
    equalize(spec);
}

fn is_elsewhere(reference: &TypedObjectReference) -> bool {
    !text(reference.namespace.as_ref()).is_empty()
}

fn is_claim_or_snapshot(source: &TypedLocalObjectReference) -> bool {
    matches!(
        (text(source.api_group.as_ref()), source.kind.as_str()),
        ("", "PersistentVolumeClaim") | ("snapshot.storage.k8s.io", "VolumeSnapshot")
    )
}

/// Fills the one that is absent from the other.
pub(super) fn equalize(spec: &mut PersistentVolumeClaimSpec) {
    match (&spec.data_source, &spec.data_source_ref) {
        (Some(source), None) => {
            spec.data_source_ref = Some(TypedObjectReference {
                api_group: source.api_group.clone(),
                kind: source.kind.clone(),
                name: source.name.clone(),
                namespace: None,
            });
        }
        (None, Some(reference)) if !is_elsewhere(reference) => {
            spec.data_source = Some(TypedLocalObjectReference {
                api_group: reference.api_group.clone(),
                kind: reference.kind.clone(),
                name: reference.name.clone(),
            });
        }
        _ => {}
    }
}
