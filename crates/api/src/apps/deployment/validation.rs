//! What is wrong with a Deployment.

use k8s_openapi::api::apps::v1::{Deployment, DeploymentSpec, DeploymentStrategy};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use apimachinery::FieldErrors;
use apimachinery::field::Path;

use crate::apps::workload;
use crate::check::{self, text};
use crate::codec;
use crate::core::pod_spec::validation::template;
use crate::kind::Part;

pub(super) fn validate(deployment: &Deployment, errors: &mut FieldErrors) {
    let path = Path::new("spec");
    let absent = DeploymentSpec::default();
    let spec = deployment.spec.as_ref().unwrap_or(&absent);
    check::non_negative(spec.replicas.unwrap_or(0), &path.child("replicas"), errors);
    let path_selector = path.child("selector");
    let selector =
        workload::validate_selector(&spec.selector, "deployment", &path_selector, errors);
    if let Some(selector) = selector {
        let path = path.child("template");
        template::validate_replicated(&spec.template, &selector, "ReplicaSet", &path, errors);
    } else {
        let detail = "invalid label selector";
        workload::refuse_malformed(&spec.selector, detail, &path_selector, errors);
    }
    let strategy = spec.strategy.clone().unwrap_or_default();
    validate_strategy(&strategy, &path.child("strategy"), errors);
    let ready_seconds = spec.min_ready_seconds.unwrap_or(0);
    check::non_negative(ready_seconds, &path.child("minReadySeconds"), errors);
    if let Some(limit) = spec.revision_history_limit {
        check::non_negative(limit, &path.child("revisionHistoryLimit"), errors);
    }
    if let Some(deadline) = spec.progress_deadline_seconds {
        let path = path.child("progressDeadlineSeconds");
        check::non_negative(deadline, &path, errors);
        if deadline <= ready_seconds {
            errors.invalid(&path, deadline, "must be greater than minReadySeconds");
        }
    }
}

fn validate_strategy(strategy: &DeploymentStrategy, path: &Path, errors: &mut FieldErrors) {
    let path_rolling = path.child("rollingUpdate");
    match text(strategy.type_.as_ref()) {
        "Recreate" => {
            if strategy.rolling_update.is_some() {
                let detail = "may not be specified when strategy `type` is 'Recreate'";
                errors.forbidden(&path_rolling, detail);
            }
        }
        "RollingUpdate" => {
            let rolling = strategy.rolling_update.clone().unwrap_or_default();
            let zero = IntOrString::Int(0);
            let unavailable = rolling.max_unavailable.as_ref().unwrap_or(&zero);
            let surge = rolling.max_surge.as_ref().unwrap_or(&zero);
            let path_unavailable = path_rolling.child("maxUnavailable");
            workload::validate_count_or_percent(unavailable, &path_unavailable, errors);
            workload::validate_count_or_percent(surge, &path_rolling.child("maxSurge"), errors);
            if workload::number(unavailable) == 0 && workload::number(surge) == 0 {
                let shown = check::int_or_string(unavailable);
                errors.invalid(&path_unavailable, shown, "may not be 0 when `maxSurge` is 0");
            }
            workload::validate_at_most_all(unavailable, &path_unavailable, errors);
        }
        _ => {
            let known = ["Recreate", "RollingUpdate"];
            errors.not_supported(path, codec::tree(strategy), &known);
        }
    }
}

pub(super) fn validate_update(
    deployment: &Deployment,
    stored: &Deployment,
    part: Part,
    errors: &mut FieldErrors,
) {
    if part == Part::Status {
        return validate_status(deployment, stored, errors);
    }
    if let (Some(spec), Some(old)) = (&deployment.spec, &stored.spec) {
        workload::validate_selector_unchanged(&spec.selector, &old.selector, errors);
    }
}

fn validate_status(deployment: &Deployment, stored: &Deployment, errors: &mut FieldErrors) {
    let status = deployment.status.clone().unwrap_or_default();
    let path = Path::new("status");
    for (field, count) in [
        ("observedGeneration", status.observed_generation.unwrap_or(0)),
        ("unavailableReplicas", status.unavailable_replicas.unwrap_or(0).into()),
        ("terminatingReplicas", status.terminating_replicas.unwrap_or(0).into()),
        ("collisionCount", status.collision_count.unwrap_or(0).into()),
    ] {
        check::non_negative(count, &path.child(field), errors);
    }
    let ready = status.ready_replicas.unwrap_or(0);
    let available = status.available_replicas.unwrap_or(0);
    let counts = [
        ("updatedReplicas", status.updated_replicas.unwrap_or(0)),
        ("readyReplicas", ready),
        ("availableReplicas", available),
    ];
    workload::validate_status_counts(status.replicas.unwrap_or(0), &counts, errors);
    if available > ready {
        let path = path.child("availableReplicas");
        errors.invalid(&path, available, "cannot be greater than readyReplicas");
    }
    let collisions = stored.status.as_ref().and_then(|it| it.collision_count);
    workload::validate_collisions(status.collision_count, collisions, errors);
}
