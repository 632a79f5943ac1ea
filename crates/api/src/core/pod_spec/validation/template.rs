//! Pod templates: what holds for all of them, and what for those of controllers that keep pods
//! running.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{PodSpec, PodTemplateSpec};

use apimachinery::FieldErrors;
use apimachinery::field::Path;
use apimachinery::selector::Labels;
use apimachinery::validation::validate_labels;

use super::{Values, annotations, validate_spec};
use crate::check::text;
use crate::codec;

/// Labels and annotations are named as if they stood in the template itself: so upstream does.
pub(crate) fn validate_metadata(template: &PodTemplateSpec, path: &Path, errors: &mut FieldErrors) {
    let absent = PodSpec::default();
    let spec = template.spec.as_ref().unwrap_or(&absent);
    let Some(metadata) = &template.metadata else { return };
    if let Some(labels) = &metadata.labels {
        validate_labels(labels, &path.child("labels"), errors);
    }
    if let Some(annotations) = &metadata.annotations {
        let path = path.child("annotations");
        annotations::validate_keys(annotations, &path, errors);
        annotations::validate(annotations, spec, &path, errors);
    }
}

pub(crate) fn validate_template(template: &PodTemplateSpec, path: &Path, errors: &mut FieldErrors) {
    validate_metadata(template, path, errors);
    let absent = PodSpec::default();
    let spec = template.spec.as_ref().unwrap_or(&absent);
    let path = path.child("spec");
    validate_spec(spec, Values::AsTheyAre, &path, errors);
    if let Some(annotations) = template.metadata.as_ref().and_then(|it| it.annotations.as_ref()) {
        annotations::validate_profiles(annotations, spec, &path, errors);
    }
    if spec.ephemeral_containers.as_ref().is_some_and(|it| !it.is_empty()) {
        errors.forbidden(
            &path.child("ephemeralContainers"),
            "ephemeral containers not allowed in pod template",
        );
    }
}

/// A selector without requirements says nothing about labels.
pub(crate) fn validate_selected(
    template: &PodTemplateSpec,
    selector: &Labels,
    path: &Path,
    errors: &mut FieldErrors,
) {
    let empty = BTreeMap::new();
    let labels = template.metadata.as_ref().and_then(|it| it.labels.as_ref());
    if !selector.is_everything() && !selector.matches(labels.unwrap_or(&empty)) {
        let path = path.child("metadata").child("labels");
        let shown = codec::tree(&labels);
        errors.invalid(&path, shown, "`selector` does not match template `labels`");
    }
}

/// Pods that a controller replaces when they end; `kind` is the controller's.
pub(crate) fn validate_endless(
    template: &PodTemplateSpec,
    kind: &str,
    path: &Path,
    errors: &mut FieldErrors,
) {
    let absent = PodSpec::default();
    let spec = template.spec.as_ref().unwrap_or(&absent);
    let path = path.child("spec");
    let policy = text(spec.restart_policy.as_ref());
    if policy != "Always" {
        errors.not_supported(&path.child("restartPolicy"), policy, &["Always"]);
    }
    if spec.active_deadline_seconds.is_some() {
        errors.forbidden(
            &path.child("activeDeadlineSeconds"),
            &format!("activeDeadlineSeconds in {kind} is not Supported"),
        );
    }
}

/// The template of a controller of `kind` that keeps `replicas` pods with `selector` running.
pub(crate) fn validate_replicated(
    template: &PodTemplateSpec,
    selector: &Labels,
    kind: &str,
    path: &Path,
    errors: &mut FieldErrors,
) {
    validate_selected(template, selector, path, errors);
    validate_template(template, path, errors);
    validate_endless(template, kind, path, errors);
}
