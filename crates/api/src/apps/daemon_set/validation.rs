//! What is wrong with a DaemonSet.

use k8s_openapi::api::apps::v1::{
    DaemonSet, DaemonSetSpec, DaemonSetUpdateStrategy, RollingUpdateDaemonSet,
};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use apimachinery::FieldErrors;
use apimachinery::field::Path;
use apimachinery::selector::Labels;
use apimachinery::validation::validate_label_selector;

use super::generation;
use crate::apps::workload;
use crate::check::{self, text};
use crate::codec;
use crate::core::pod_spec::validation::template;
use crate::kind::Part;

pub(super) fn validate(object: &DaemonSet, errors: &mut FieldErrors) {
    let path = Path::new("spec");
    let absent = DaemonSetSpec::default();
    let spec = object.spec.as_ref().unwrap_or(&absent);
    let path_template = path.child("template");
    validate_selector(spec, &path, errors);
    template::validate_template(&spec.template, &path_template, errors);
    template::validate_endless(&spec.template, "DaemonSet", &path_template, errors);
    let ready_seconds = spec.min_ready_seconds.unwrap_or(0);
    check::non_negative(ready_seconds, &path.child("minReadySeconds"), errors);
    generation::validate(object, errors);
    let strategy = spec.update_strategy.clone().unwrap_or_default();
    validate_strategy(&strategy, &path.child("updateStrategy"), errors);
    if let Some(limit) = spec.revision_history_limit {
        check::non_negative(limit, &path.child("revisionHistoryLimit"), errors);
    }
}

/// A selector that is absent selects nothing, and so never what the template makes.
fn validate_selector(spec: &DaemonSetSpec, path: &Path, errors: &mut FieldErrors) {
    let path_selector = path.child("selector");
    let selector = &spec.selector;
    validate_label_selector(selector, &path_selector, errors);
    let labels = if workload::is_absent(selector) {
        Ok(Labels::nothing())
    } else {
        Labels::from_selector(Some(selector))
    };
    if let Ok(labels) = labels {
        template::validate_selected(&spec.template, &labels, &path.child("template"), errors);
    }
    workload::validate_not_empty(selector, "daemonset", &path_selector, errors);
}

fn validate_strategy(strategy: &DaemonSetUpdateStrategy, path: &Path, errors: &mut FieldErrors) {
    let path_rolling = path.child("rollingUpdate");
    match (text(strategy.type_.as_ref()), &strategy.rolling_update) {
        ("OnDelete", _) => {}
        ("RollingUpdate", Some(rolling)) => validate_rolling(rolling, &path_rolling, errors),
        ("RollingUpdate", None) => errors.required(&path_rolling, ""),
        _ => {
            let supported = ["RollingUpdate", "OnDelete"];
            errors.not_supported_as_listed(path, codec::tree(strategy), &supported);
        }
    }
}

/// Either a node is without its pod for a while, or it has two.
fn validate_rolling(rolling: &RollingUpdateDaemonSet, path: &Path, errors: &mut FieldErrors) {
    let zero = IntOrString::Int(0);
    let unavailable = rolling.max_unavailable.as_ref().unwrap_or(&zero);
    let surge = rolling.max_surge.as_ref().unwrap_or(&zero);
    let path_unavailable = path.child("maxUnavailable");
    let path_surge = path.child("maxSurge");
    workload::validate_count_or_percent(unavailable, &path_unavailable, errors);
    workload::validate_count_or_percent(surge, &path_surge, errors);
    workload::validate_at_most_all(unavailable, &path_unavailable, errors);
    workload::validate_at_most_all(surge, &path_surge, errors);
    match (workload::number(unavailable) != 0, workload::number(surge) != 0) {
        (true, true) => {
            let detail = "may not be set when maxUnavailable is non-zero";
            errors.invalid(&path_surge, check::int_or_string(surge), detail);
        }
        (false, false) => errors.required(&path_unavailable, "cannot be 0 when maxSurge is 0"),
        _ => {}
    }
}

pub(super) fn validate_update(
    object: &DaemonSet,
    stored: &DaemonSet,
    part: Part,
    errors: &mut FieldErrors,
) {
    if part == Part::Status {
        return validate_status(object, stored, errors);
    }
    if let (Some(spec), Some(old)) = (&object.spec, &stored.spec) {
        workload::validate_selector_unchanged(&spec.selector, &old.selector, errors);
    }
}

fn validate_status(object: &DaemonSet, stored: &DaemonSet, errors: &mut FieldErrors) {
    let status = object.status.clone().unwrap_or_default();
    let path = Path::new("status");
    let counts: [(&str, i64); 9] = [
        ("currentNumberScheduled", status.current_number_scheduled.into()),
        ("numberMisscheduled", status.number_misscheduled.into()),
        ("desiredNumberScheduled", status.desired_number_scheduled.into()),
        ("numberReady", status.number_ready.into()),
        ("observedGeneration", status.observed_generation.unwrap_or(0)),
        ("updatedNumberScheduled", status.updated_number_scheduled.unwrap_or(0).into()),
        ("numberAvailable", status.number_available.unwrap_or(0).into()),
        ("numberUnavailable", status.number_unavailable.unwrap_or(0).into()),
        ("collisionCount", status.collision_count.unwrap_or(0).into()),
    ];
    for (field, count) in counts {
        check::non_negative(count, &path.child(field), errors);
    }
    let collisions = stored.status.as_ref().and_then(|it| it.collision_count);
    workload::validate_collisions(status.collision_count, collisions, errors);
}
