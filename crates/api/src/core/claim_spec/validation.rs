//! What is wrong with a new claim's spec.

use k8s_openapi::api::core::v1::PersistentVolumeClaimSpec;

use apimachinery::FieldErrors;
use apimachinery::field::Path;
use apimachinery::quantity::Amount;
use apimachinery::validation::{is_dns_label, is_dns_subdomain, validate_label_selector};

use super::STORAGE;
use crate::check::{self, text};

const ALONE: &str = "ReadWriteOncePod";
const ACCESS_MODES: &[&str] = &["ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", ALONE];
const VOLUME_MODES: &[&str] = &["Block", "Filesystem"];
const CLAIM: &str = "PersistentVolumeClaim";

pub(crate) fn validate(spec: &PersistentVolumeClaimSpec, path: &Path, errors: &mut FieldErrors) {
    validate_access_modes(spec, &path.child("accessModes"), errors);
    if let Some(selector) = &spec.selector {
        validate_label_selector(selector, &path.child("selector"), errors);
    }
    validate_size(spec, &path.child("resources").key(STORAGE), errors);
    for (field, name) in [
        ("storageClassName", &spec.storage_class_name),
        ("volumeAttributesClassName", &spec.volume_attributes_class_name),
    ] {
        let name = text(name.as_ref());
        if !name.is_empty() {
            check::format(name, &is_dns_subdomain(name), &path.child(field), errors);
        }
    }
    if let Some(mode) = spec.volume_mode.as_deref()
        && !VOLUME_MODES.contains(&mode)
    {
        errors.not_supported(&path.child("volumeMode"), mode, VOLUME_MODES);
    }
    validate_sources(spec, path, errors);
}

fn validate_access_modes(spec: &PersistentVolumeClaimSpec, path: &Path, errors: &mut FieldErrors) {
    let modes = spec.access_modes.as_deref().unwrap_or_default();
    if modes.is_empty() {
        errors.required(path, "at least 1 access mode is required");
    }
    for mode in modes.iter().filter(|it| !ACCESS_MODES.contains(&it.as_str())) {
        errors.not_supported(path, mode.as_str(), ACCESS_MODES);
    }
    let is_other = |it: &String| it != ALONE && ACCESS_MODES.contains(&it.as_str());
    if modes.iter().any(|it| it == ALONE) && modes.iter().any(is_other) {
        errors.forbidden(path, "may not use ReadWriteOncePod with other access modes");
    }
}

fn validate_size(spec: &PersistentVolumeClaimSpec, path: &Path, errors: &mut FieldErrors) {
    let requests = spec.resources.as_ref().and_then(|it| it.requests.as_ref());
    let Some(size) = requests.and_then(|it| it.get(STORAGE)) else {
        return errors.required(path, "");
    };
    match Amount::parse(&size.0) {
        Ok(amount) if amount > Amount::ZERO => {}
        Ok(_) => errors.invalid(path, size.0.as_str(), "must be greater than zero"),
        Err(problem) => errors.invalid(path, size.0.as_str(), &problem.to_string()),
    }
}

/// Where its first content comes from.
struct Source<'a> {
    group: Option<&'a str>,
    kind: &'a str,
    name: &'a str,
}

fn validate_sources(spec: &PersistentVolumeClaimSpec, path: &Path, errors: &mut FieldErrors) {
    let source = spec.data_source.as_ref().map(|it| Source {
        group: it.api_group.as_deref(),
        kind: &it.kind,
        name: &it.name,
    });
    let reference = spec.data_source_ref.as_ref().map(|it| Source {
        group: it.api_group.as_deref(),
        kind: &it.kind,
        name: &it.name,
    });
    let namespace = text(spec.data_source_ref.as_ref().and_then(|it| it.namespace.as_ref()));
    if let Some(source) = &source {
        validate_source(source, &path.child("dataSource"), errors);
    }
    if let Some(reference) = &reference {
        let path = path.child("dataSourceRef");
        validate_source(reference, &path, errors);
        if !namespace.is_empty() {
            let path = path.child("namespace");
            check::format(namespace, &is_dns_label(namespace), &path, errors);
        }
    }
    let (Some(source), Some(reference)) = (source, reference) else { return };
    let is_same = (source.group, source.kind, source.name)
        == (reference.group, reference.kind, reference.name);
    let shown = path.child("dataSource");
    if !namespace.is_empty() {
        let detail = "may not be specified when dataSourceRef.namespace is specified";
        errors.invalid(path, shown.as_str(), detail);
    } else if !is_same {
        errors.invalid(path, shown.as_str(), "must match dataSourceRef");
    }
}

fn validate_source(source: &Source<'_>, path: &Path, errors: &mut FieldErrors) {
    if source.name.is_empty() {
        errors.required(&path.child("name"), "");
    }
    if source.kind.is_empty() {
        errors.required(&path.child("kind"), "");
    }
    let group = source.group.unwrap_or_default();
    if group.is_empty() && source.kind != CLAIM {
        let detail = "must be 'PersistentVolumeClaim' when referencing the default apiGroup";
        errors.invalid(path, source.kind, detail);
    }
    if !group.is_empty() {
        check::format(group, &is_dns_subdomain(group), &path.child("apiGroup"), errors);
    }
}
