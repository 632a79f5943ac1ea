//! What is wrong with a ResourceClaimTemplate.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use apimachinery::FieldErrors;
use apimachinery::field::Path;
use apimachinery::validation::{validate_annotations, validate_labels};

use super::ResourceClaimTemplate;
use crate::resource::claims;
use crate::{check, codec, semantic};

pub(super) fn validate(template: &ResourceClaimTemplate, errors: &mut FieldErrors) {
    let path = Path::new("spec");
    if let Some(metadata) = &template.spec.metadata {
        validate_metadata(metadata, &path.child("metadata"), errors);
    }
    claims::validate(&template.spec.spec, &path.child("spec"), errors);
}

/// Labels and annotations of the claims; all else is the server's to say.
fn validate_metadata(metadata: &ObjectMeta, path: &Path, errors: &mut FieldErrors) {
    if let Some(annotations) = &metadata.annotations {
        validate_annotations(annotations, &path.child("annotations"), errors);
    }
    if let Some(labels) = &metadata.labels {
        validate_labels(labels, &path.child("labels"), errors);
    }
    for (field, is_set) in [
        ("name", metadata.name.is_some()),
        ("generateName", metadata.generate_name.is_some()),
        ("namespace", metadata.namespace.is_some()),
        ("selfLink", metadata.self_link.is_some()),
        ("uID", metadata.uid.is_some()),
        ("resourceVersion", metadata.resource_version.is_some()),
        ("generation", metadata.generation.is_some()),
        ("creationTimestamp", metadata.creation_timestamp.is_some()),
        ("deletionTimestamp", metadata.deletion_timestamp.is_some()),
        ("deletionGracePeriodSeconds", metadata.deletion_grace_period_seconds.is_some()),
        ("ownerReferences", metadata.owner_references.is_some()),
        ("finalizers", metadata.finalizers.is_some()),
        ("managedFields", metadata.managed_fields.is_some()),
    ] {
        if is_set {
            errors.forbidden(&path.child(field), "cannot be set");
        }
    }
}

pub(super) fn validate_update(
    template: &ResourceClaimTemplate,
    stored: &ResourceClaimTemplate,
    errors: &mut FieldErrors,
) {
    let is_same = semantic::equal_at("spec", template, stored);
    check::immutable(is_same, codec::tree(&template.spec), &Path::new("spec"), errors);
}
