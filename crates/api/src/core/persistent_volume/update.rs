//! What of a volume may change.

use k8s_openapi::api::core::v1::{
    NodeSelectorRequirement, PersistentVolumeSpec, VolumeNodeAffinity,
};

use apimachinery::FieldErrors;
use apimachinery::field::Path;

use super::PersistentVolume;
use crate::check;
use crate::core::node_labels;
use crate::core::pod_spec::validation::Values;
use crate::{codec, semantic};

/// A client that says nothing of the time means the one that is there, unless the phase is another
/// now: then the server gives one.
pub(super) fn keep_transition_time(volume: &mut PersistentVolume, stored: &PersistentVolume) {
    let Some(status) = &mut volume.status else { return };
    let old = stored.status.as_ref();
    let time = old.and_then(|it| it.last_phase_transition_time.clone());
    if old.and_then(|it| it.phase.as_ref()) != status.phase.as_ref() {
        if status.last_phase_transition_time == time {
            status.last_phase_transition_time = None;
        }
    } else if status.last_phase_transition_time.is_none() {
        status.last_phase_transition_time = time;
    }
}

/// Values that were stored before they were checked do not hinder other changes.
pub(super) fn allowed_values(stored: &PersistentVolume) -> Values {
    let affinity = stored.spec.as_ref().and_then(|it| it.node_affinity.as_ref());
    let required = affinity.and_then(|it| it.required.as_ref());
    Values::taken(required.map(|it| it.node_selector_terms.as_slice()).unwrap_or_default())
}

pub(super) fn validate(
    volume: &PersistentVolume,
    stored: &PersistentVolume,
    errors: &mut FieldErrors,
) {
    let absent = PersistentVolumeSpec::default();
    let spec = volume.spec.as_ref().unwrap_or(&absent);
    let old = stored.spec.as_ref().unwrap_or(&absent);
    let (source, old_source) = (source_of(spec, old), source_of(old, old));
    if !semantic::equal(&source, &old_source) {
        let fields = semantic::changed_fields(&source, &old_source).join(", ");
        let detail =
            format!("spec.persistentvolumesource is immutable after creation\nchanged: {fields}");
        errors.forbidden(&Path::new("spec").child("persistentvolumesource"), &detail);
    }
    let mode = codec::tree(&spec.volume_mode);
    let is_same = spec.volume_mode == old.volume_mode;
    check::immutable(is_same, mode, &Path::new("volumeMode"), errors);
    if let Some(affinity) = &old.node_affinity
        && !is_same_affinity(spec.node_affinity.as_ref(), affinity)
    {
        let detail = "field is immutable, except for updating from beta label to GA";
        let shown = codec::tree(&spec.node_affinity);
        errors.invalid(&Path::new("nodeAffinity"), shown, detail);
    }
    if old.volume_attributes_class_name.is_some() && spec.volume_attributes_class_name.is_none() {
        let path = Path::new("spec").child("volumeAttributesClassName");
        errors.forbidden(&path, "update from non-nil value to nil is forbidden");
    }
}

/// Where the content is, and nothing else. The secret for expanding it may be added.
fn source_of(spec: &PersistentVolumeSpec, old: &PersistentVolumeSpec) -> PersistentVolumeSpec {
    let mut source = PersistentVolumeSpec {
        access_modes: None,
        capacity: None,
        claim_ref: None,
        mount_options: None,
        node_affinity: None,
        persistent_volume_reclaim_policy: None,
        storage_class_name: None,
        volume_attributes_class_name: None,
        volume_mode: None,
        ..spec.clone()
    };
    if let (Some(csi), Some(old)) = (&mut source.csi, &old.csi)
        && old.controller_expand_secret_ref.is_none()
    {
        csi.controller_expand_secret_ref = None;
    }
    source
}

/// The old affinity with each label under the name that the new one calls it by, where that is its
/// new name.
fn is_same_affinity(affinity: Option<&VolumeNodeAffinity>, old: &VolumeNodeAffinity) -> bool {
    let Some(affinity) = affinity else { return false };
    let mut old = old.clone();
    let new_terms = affinity.required.iter().flat_map(|it| &it.node_selector_terms);
    let old_terms = old.required.iter_mut().flat_map(|it| &mut it.node_selector_terms);
    for (new, old) in new_terms.zip(old_terms) {
        follow(new.match_expressions.as_deref(), old.match_expressions.as_deref_mut());
        follow(new.match_fields.as_deref(), old.match_fields.as_deref_mut());
    }
    semantic::equal(affinity, &old)
}

fn follow(new: Option<&[NodeSelectorRequirement]>, old: Option<&mut [NodeSelectorRequirement]>) {
    for (new, old) in new.into_iter().flatten().zip(old.into_iter().flatten()) {
        // Upstream takes no key at all for the new name of a label that has none.
        if node_labels::stable_name(&old.key).unwrap_or_default() == new.key {
            old.key.clone_from(&new.key);
        }
    }
}
