//! What is wrong with a ReplicationController.

use k8s_openapi::api::core::v1::{ReplicationController, ReplicationControllerSpec};

use apimachinery::FieldErrors;
use apimachinery::field::Path;
use apimachinery::selector::Labels;

use crate::apps::workload;
use crate::check;
use crate::core::pod_spec::validation::template;
use crate::kind::Part;

pub(super) fn validate(object: &ReplicationController, errors: &mut FieldErrors) {
    let path = Path::new("spec");
    let absent = ReplicationControllerSpec::default();
    let spec = object.spec.as_ref().unwrap_or(&absent);
    check::non_negative(
        spec.min_ready_seconds.unwrap_or(0),
        &path.child("minReadySeconds"),
        errors,
    );
    let labels = spec.selector.clone().unwrap_or_default();
    if labels.is_empty() {
        errors.required(&path.child("selector"), "");
    }
    let selector = Labels::from_map(&labels);
    check::non_negative(spec.replicas.unwrap_or(0), &path.child("replicas"), errors);
    match &spec.template {
        Some(template) => {
            let path = path.child("template");
            let kind = "ReplicationController";
            template::validate_replicated(template, &selector, kind, &path, errors);
        }
        None => errors.required(&path.child("template"), ""),
    }
}

pub(super) fn validate_update(
    object: &ReplicationController,
    _stored: &ReplicationController,
    part: Part,
    errors: &mut FieldErrors,
) {
    if part == Part::Status {
        validate_status(object, errors);
    }
}

fn validate_status(object: &ReplicationController, errors: &mut FieldErrors) {
    let status = object.status.clone().unwrap_or_default();
    let ready = status.ready_replicas.unwrap_or(0);
    let available = status.available_replicas.unwrap_or(0);
    let counts = [
        ("fullyLabeledReplicas", status.fully_labeled_replicas.unwrap_or(0)),
        ("readyReplicas", ready),
        ("availableReplicas", available),
    ];
    workload::validate_status_counts(status.replicas, &counts, errors);
    if available > ready {
        let path = Path::new("status.availableReplicas");
        errors.invalid(&path, available, "cannot be greater than readyReplicas");
    }
}
