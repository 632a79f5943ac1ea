//! What of a claim may change: the volume once, the class from nothing, size and attributes of one
//! that is bound.

use k8s_openapi::api::core::v1::PersistentVolumeClaimSpec;

use apimachinery::FieldErrors;
use apimachinery::field::Path;
use apimachinery::validation::validate_label_selector;

use super::validation::{Leniency, validate_spec};
use super::{PersistentVolumeClaim, data_source};
use crate::check::{self, text};
use crate::core::persistent_volume::CLASS_ANNOTATION;
use crate::{codec, quantities, semantic};

pub(super) fn validate(
    claim: &PersistentVolumeClaim,
    stored: &PersistentVolumeClaim,
    errors: &mut FieldErrors,
) {
    let absent = PersistentVolumeClaimSpec::default();
    let spec = claim.spec.as_ref().unwrap_or(&absent);
    let mut old = stored.spec.clone().unwrap_or_default();
    let path = Path::new("spec");
    validate_spec(spec, leniency(&old), &path, errors);
    // It may have been stored when only one of them was.
    data_source::equalize(&mut old);
    validate_annotation(claim, stored, errors);
    let rest = unchangeable(claim, stored, &old);
    if !semantic::equal(&rest, &old) {
        let fields = semantic::changed_fields(&rest, &old).join(", ");
        let detail = format!(
            "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims\nchanged: {fields}"
        );
        errors.forbidden(&path, &detail);
    }
    validate_size(spec, &old, stored, errors);
    let mode = codec::tree(&spec.volume_mode);
    let is_same = spec.volume_mode == old.volume_mode;
    check::immutable(is_same, mode, &Path::new("volumeMode"), errors);
    validate_attributes(spec, &old, stored, &path.child("volumeAttributesClassName"), errors);
}

fn leniency(old: &PersistentVolumeClaimSpec) -> Leniency {
    let mut problems = FieldErrors::new();
    if let Some(selector) = &old.selector {
        validate_label_selector(selector, &Path::root(), &mut problems);
    }
    let source = old.data_source.as_ref().is_some_and(|it| it.api_group.is_some());
    let reference = old.data_source_ref.as_ref().is_some_and(|it| it.api_group.is_some());
    Leniency { of_selector: !problems.is_empty(), of_api_group: source || reference }
}

fn annotation(claim: &PersistentVolumeClaim) -> Option<&String> {
    claim.metadata.annotations.as_ref().and_then(|it| it.get(CLASS_ANNOTATION))
}

fn class(spec: Option<&PersistentVolumeClaimSpec>) -> Option<&String> {
    spec.and_then(|it| it.storage_class_name.as_ref())
}

/// The class moves from the annotation, where it stood before there was a field.
fn is_class_moved(claim: &PersistentVolumeClaim, stored: &PersistentVolumeClaim) -> bool {
    let Some(old) = annotation(stored) else { return false };
    class(stored.spec.as_ref()).is_none()
        && class(claim.spec.as_ref()) == Some(old)
        && annotation(claim).is_none_or(|it| it == old)
}

fn validate_annotation(
    claim: &PersistentVolumeClaim,
    stored: &PersistentVolumeClaim,
    errors: &mut FieldErrors,
) {
    let value = text(annotation(claim));
    if !is_class_moved(claim, stored) {
        let path = Path::new("metadata").child("annotations").child(CLASS_ANNOTATION);
        check::immutable(value == text(annotation(stored)), value, &path, errors);
    }
}

/// The new spec with whatever may change as it is in the old one.
fn unchangeable(
    claim: &PersistentVolumeClaim,
    stored: &PersistentVolumeClaim,
    old: &PersistentVolumeClaimSpec,
) -> PersistentVolumeClaimSpec {
    let mut rest = claim.spec.clone().unwrap_or_default();
    if text(old.volume_name.as_ref()).is_empty() {
        rest.volume_name.clone_from(&old.volume_name);
    }
    let is_given = match (&rest.storage_class_name, &old.storage_class_name, annotation(stored)) {
        (Some(new), None, Some(annotated)) => new == annotated,
        (Some(_), None, None) => true,
        _ => false,
    };
    if is_given {
        rest.storage_class_name = None;
    }
    let is_bound = claim.status.as_ref().is_some_and(|it| text(it.phase.as_ref()) == "Bound");
    if is_bound {
        rest.volume_attributes_class_name.clone_from(&old.volume_attributes_class_name);
    }
    let (Some(new), Some(old)) = (&mut rest.resources, &old.resources) else { return rest };
    if is_bound && let Some(requests) = &mut new.requests {
        let storage = quantities::of(old.requests.as_ref(), "storage").cloned();
        requests.insert("storage".to_owned(), storage.unwrap_or_default());
    }
    // However they are written.
    for (new, old) in [(&mut new.requests, &old.requests), (&mut new.limits, &old.limits)] {
        if quantities::is_same(new.as_ref(), old.as_ref()) {
            new.clone_from(old);
        }
    }
    rest
}

/// A size that was asked for and could not be had may be taken back, to anything more than there is.
fn validate_size(
    spec: &PersistentVolumeClaimSpec,
    old: &PersistentVolumeClaimSpec,
    stored: &PersistentVolumeClaim,
    errors: &mut FieldErrors,
) {
    let requested = |spec: &PersistentVolumeClaimSpec| {
        let requests = spec.resources.as_ref().and_then(|it| it.requests.as_ref());
        quantities::amount(quantities::of(requests, "storage"))
    };
    let capacity = stored.status.as_ref().and_then(|it| it.capacity.as_ref());
    let capacity = quantities::amount(quantities::of(capacity, "storage"));
    let new = requested(spec);
    if new < requested(old) && new <= capacity {
        let path = Path::new("spec").child("resources").child("requests").child("storage");
        errors.forbidden(&path, "field can not be less than status.capacity");
    }
}

/// Attributes that a volume has got are changed for others, never for none.
fn validate_attributes(
    spec: &PersistentVolumeClaimSpec,
    old: &PersistentVolumeClaimSpec,
    stored: &PersistentVolumeClaim,
    path: &Path,
    errors: &mut FieldErrors,
) {
    let status = stored.status.as_ref();
    let has_some = status.is_some_and(|it| it.current_volume_attributes_class_name.is_some());
    if !has_some || spec.volume_attributes_class_name == old.volume_attributes_class_name {
        return;
    }
    let what = match spec.volume_attributes_class_name.as_deref() {
        None => "nil",
        Some("") => "empty string",
        Some(_) => return,
    };
    let why = "is forbidden when status.currentVolumeAttributesClassName is not nil";
    errors.forbidden(path, &format!("update to {what} {why}"));
}
