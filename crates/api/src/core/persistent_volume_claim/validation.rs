//! What is wrong with a PersistentVolumeClaim, or with a template of one.

use k8s_openapi::api::core::v1::{
    PersistentVolumeClaimSpec, PersistentVolumeClaimTemplate, TypedLocalObjectReference,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::{Value, json};

use apimachinery::FieldErrors;
use apimachinery::field::Path;
use apimachinery::validation::{
    is_dns_label, is_dns_subdomain, is_qualified_name, validate_annotations,
    validate_label_selector, validate_labels,
};

use super::PersistentVolumeClaim;
use crate::check::{self, text};
use crate::codec;
use crate::core::persistent_volume::validation::{VOLUME_MODES, validate_access_modes};
use crate::core::resource_names;
use crate::quantities;

const RESIZE_STATUSES: &[&str] = &[
    "ControllerResizeInProgress",
    "ControllerResizeInfeasible",
    "NodeResizeInProgress",
    "NodeResizeInfeasible",
    "NodeResizePending",
];

/// What was stored before it was checked, and does not hinder other changes.
#[derive(Clone, Copy, Default)]
pub(super) struct Leniency {
    pub(super) of_selector: bool,
    pub(super) of_api_group: bool,
}

/// Of a claim that is new, or of a template of claims.
pub(crate) fn validate_new_spec(
    spec: &PersistentVolumeClaimSpec,
    path: &Path,
    errors: &mut FieldErrors,
) {
    validate_spec(spec, Leniency::default(), path, errors);
}

pub(super) fn validate_spec(
    spec: &PersistentVolumeClaimSpec,
    leniency: Leniency,
    path: &Path,
    errors: &mut FieldErrors,
) {
    let path_modes = path.child("accessModes");
    if spec.access_modes.as_ref().is_none_or(Vec::is_empty) {
        errors.required(&path_modes, "at least 1 access mode is required");
    }
    if let Some(selector) = spec.selector.as_ref().filter(|_| !leniency.of_selector) {
        validate_label_selector(selector, &path.child("selector"), errors);
    }
    validate_access_modes(spec.access_modes.as_deref(), &path_modes, errors);
    // Upstream names this path, without `requests`; clients may match it.
    let path_storage = path.child("resources").key("storage");
    let requests = spec.resources.as_ref().and_then(|it| it.requests.as_ref());
    match quantities::of(requests, "storage") {
        None => errors.required(&path_storage, ""),
        Some(storage) => {
            quantities::positive(storage, &path_storage, errors);
        }
    }
    let class = text(spec.storage_class_name.as_ref());
    if !class.is_empty() {
        check::format(class, &is_dns_subdomain(class), &path.child("storageClassName"), errors);
    }
    if let Some(mode) = spec.volume_mode.as_deref().filter(|it| !VOLUME_MODES.contains(it)) {
        errors.not_supported(&path.child("volumeMode"), mode, VOLUME_MODES);
    }
    validate_sources(spec, leniency, path, errors);
    let class = text(spec.volume_attributes_class_name.as_ref());
    if !class.is_empty() {
        let path = path.child("volumeAttributesClassName");
        check::format(class, &is_dns_subdomain(class), &path, errors);
    }
}

fn validate_sources(
    spec: &PersistentVolumeClaimSpec,
    leniency: Leniency,
    path: &Path,
    errors: &mut FieldErrors,
) {
    if let Some(source) = &spec.data_source {
        validate_source(source, leniency, &path.child("dataSource"), errors);
    }
    let Some(reference) = &spec.data_source_ref else { return };
    let local = TypedLocalObjectReference {
        api_group: reference.api_group.clone(),
        kind: reference.kind.clone(),
        name: reference.name.clone(),
    };
    let path_ref = path.child("dataSourceRef");
    validate_source(&local, leniency, &path_ref, errors);
    let namespace = text(reference.namespace.as_ref());
    if !namespace.is_empty() {
        check::format(namespace, &is_dns_label(namespace), &path_ref.child("namespace"), errors);
    }
    let Some(source) = &spec.data_source else { return };
    // Upstream gives a path as the value, which it shows like this.
    let shown = json!({});
    if !namespace.is_empty() {
        let detail = "may not be specified when dataSourceRef.namespace is specified";
        errors.invalid(path, shown, detail);
    } else if *source != local {
        errors.invalid(path, shown, "must match dataSourceRef");
    }
}

fn validate_source(
    source: &TypedLocalObjectReference,
    leniency: Leniency,
    path: &Path,
    errors: &mut FieldErrors,
) {
    for (field, value) in [("name", &source.name), ("kind", &source.kind)] {
        if value.is_empty() {
            errors.required(&path.child(field), "");
        }
    }
    let group = text(source.api_group.as_ref());
    if group.is_empty() && source.kind != "PersistentVolumeClaim" {
        let detail = "must be 'PersistentVolumeClaim' when referencing the default apiGroup";
        errors.invalid(path, source.kind.as_str(), detail);
    }
    if !group.is_empty() && !leniency.of_api_group {
        check::format(group, &is_dns_subdomain(group), &path.child("apiGroup"), errors);
    }
}

/// Of claims that are made for a pod or a replica.
pub(crate) fn validate_template(
    template: &PersistentVolumeClaimTemplate,
    path: &Path,
    errors: &mut FieldErrors,
) {
    if let Some(metadata) = &template.metadata {
        validate_template_metadata(metadata, &path.child("metadata"), errors);
    }
    validate_spec(&template.spec, Leniency::default(), &path.child("spec"), errors);
}

/// Labels and annotations are all that is taken over.
fn validate_template_metadata(metadata: &ObjectMeta, path: &Path, errors: &mut FieldErrors) {
    if let Some(annotations) = &metadata.annotations {
        validate_annotations(annotations, &path.child("annotations"), errors);
    }
    if let Some(labels) = &metadata.labels {
        validate_labels(labels, &path.child("labels"), errors);
    }
    let rest = ObjectMeta { annotations: None, labels: None, ..metadata.clone() };
    let Value::Object(fields) = codec::tree(&rest) else { return };
    for (field, _) in fields.iter().filter(|it| it.1 != "") {
        errors.forbidden(&path.child(field), "cannot be set");
    }
}

pub(super) fn validate_status(claim: &PersistentVolumeClaim, errors: &mut FieldErrors) {
    let modes = claim.spec.as_ref().and_then(|it| it.access_modes.as_ref());
    if modes.is_none_or(Vec::is_empty) {
        errors.required(&Path::new("Spec").child("accessModes"), "");
    }
    let Some(status) = &claim.status else { return };
    let path = Path::new("status");
    for (resource, quantity) in status.capacity.iter().flatten() {
        quantities::valid(quantity, &path.child("capacity").key(resource), errors);
    }
    let path_statuses = path.child("allocatedResourceStatuses");
    for (resource, resize) in status.allocated_resource_statuses.iter().flatten() {
        validate_resource(resource, &path_statuses, errors);
        if !RESIZE_STATUSES.contains(&resize.as_str()) {
            errors.not_supported(&path_statuses, resource.as_str(), RESIZE_STATUSES);
        }
    }
    let path_allocated = path.child("allocatedResources");
    for (resource, quantity) in status.allocated_resources.iter().flatten() {
        if validate_resource(resource, &path_allocated, errors) {
            quantities::valid(quantity, &path_allocated.key(resource), errors);
        }
    }
}

/// Storage, or something of somebody else. Whether it is.
fn validate_resource(resource: &str, path: &Path, errors: &mut FieldErrors) -> bool {
    let problems = is_qualified_name(resource);
    check::format(resource, &problems, path, errors);
    let is_allowed = !resource_names::is_native(resource) || resource == "storage";
    if problems.is_empty() && !is_allowed {
        errors.not_supported(path, resource, &["storage"]);
    }
    problems.is_empty() && is_allowed
}
