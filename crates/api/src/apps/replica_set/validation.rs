//! What is wrong with a ReplicaSet.

use k8s_openapi::api::apps::v1::{ReplicaSet, ReplicaSetSpec};

use apimachinery::FieldErrors;
use apimachinery::field::Path;

use crate::apps::workload;
use crate::check;
use crate::core::pod_spec::validation::template;
use crate::kind::Part;

pub(super) fn validate(object: &ReplicaSet, errors: &mut FieldErrors) {
    let path = Path::new("spec");
    let absent = ReplicaSetSpec::default();
    let spec = object.spec.as_ref().unwrap_or(&absent);
    check::non_negative(spec.replicas.unwrap_or(0), &path.child("replicas"), errors);
    check::non_negative(
        spec.min_ready_seconds.unwrap_or(0),
        &path.child("minReadySeconds"),
        errors,
    );
    let path_selector = path.child("selector");
    // The text is the one that clients know.
    let selector =
        workload::validate_selector(&spec.selector, "deployment", &path_selector, errors);
    match (&spec.template, selector) {
        (Some(template), Some(selector)) => {
            let path = path.child("template");
            template::validate_replicated(template, &selector, "ReplicaSet", &path, errors);
        }
        (_, None) => {
            let detail = "invalid label selector";
            workload::refuse_malformed(&spec.selector, detail, &path_selector, errors);
        }
        (None, _) => errors.required(&path.child("template"), ""),
    }
}

pub(super) fn validate_update(
    object: &ReplicaSet,
    stored: &ReplicaSet,
    part: Part,
    errors: &mut FieldErrors,
) {
    if part == Part::Status {
        return validate_status(object, errors);
    }
    if let (Some(spec), Some(old)) = (&object.spec, &stored.spec) {
        workload::validate_selector_unchanged(&spec.selector, &old.selector, errors);
    }
}

fn validate_status(object: &ReplicaSet, errors: &mut FieldErrors) {
    let status = object.status.clone().unwrap_or_default();
    let ready = status.ready_replicas.unwrap_or(0);
    let available = status.available_replicas.unwrap_or(0);
    let path = Path::new("status");
    check::non_negative(
        status.observed_generation.unwrap_or(0),
        &path.child("observedGeneration"),
        errors,
    );
    check::non_negative(
        status.terminating_replicas.unwrap_or(0),
        &path.child("terminatingReplicas"),
        errors,
    );
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
