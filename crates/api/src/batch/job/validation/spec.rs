//! The spec of a Job, and of the jobs that a CronJob makes: all but its selector.

use k8s_openapi::api::batch::v1::JobSpec;

use apimachinery::FieldErrors;
use apimachinery::field::Path;
use apimachinery::validation::validate_domain_prefixed_path;

use super::super::is_indexed;
use super::policies;
use crate::check::{self, text};
use crate::codec;
use crate::core::pod_spec::validation::template;

const MANAGED_BY_BYTES_MAX: usize = 63;
/// Bounds of indexed jobs, so that their indexes fit into the status.
const PARALLELISM_MAX: i32 = 100_000;
const FAILED_INDEXES_MAX: i32 = 100_000;
/// With more completions than this and a limit for each index, two bounds are lower.
const COMPLETIONS_MANY: i32 = 100_000;
const PARALLELISM_OF_MANY_MAX: i32 = 10_000;
const FAILED_INDEXES_OF_MANY_MAX: i32 = 10_000;

pub(crate) fn validate(spec: &JobSpec, path: &Path, errors: &mut FieldErrors) {
    validate_numbers(spec, path, errors);
    if let Some(manager) = &spec.managed_by {
        let path = path.child("managedBy");
        validate_domain_prefixed_path(manager, &path, errors);
        if manager.len() > MANAGED_BY_BYTES_MAX {
            errors.too_long(&path, MANAGED_BY_BYTES_MAX);
        }
    }
    let mode = spec.completion_mode.as_deref();
    let modes = ["NonIndexed", "Indexed"];
    if let Some(mode) = mode.filter(|it| !modes.contains(it)) {
        errors.not_supported_as_listed(&path.child("completionMode"), mode, &modes);
    }
    if is_indexed(spec) {
        validate_indexed(spec, path, errors);
        validate_many(spec, path, errors);
    } else if mode.is_none_or(|it| it == "NonIndexed") {
        for (field, value) in [
            ("backoffLimitPerIndex", spec.backoff_limit_per_index),
            ("maxFailedIndexes", spec.max_failed_indexes),
        ] {
            if let Some(value) = value {
                errors.invalid(&path.child(field), value, "requires indexed completion mode");
            }
        }
    }
    policies::validate_failure(spec, &path.child("podFailurePolicy"), errors);
    if let Some(policy) = &spec.success_policy {
        let path = path.child("successPolicy");
        if is_indexed(spec) {
            policies::validate_success(policy, spec.completions, &path, errors);
        } else {
            errors.invalid(&path, codec::tree(policy), "requires indexed completion mode");
        }
    }
    validate_replacement(spec, &path.child("podReplacementPolicy"), errors);
    template::validate_template(&spec.template, &path.child("template"), errors);
    validate_restarts(spec, &path.child("template").child("spec").child("restartPolicy"), errors);
}

fn validate_numbers(spec: &JobSpec, path: &Path, errors: &mut FieldErrors) {
    let numbers: [(&str, Option<i64>); 7] = [
        ("parallelism", spec.parallelism.map(Into::into)),
        ("completions", spec.completions.map(Into::into)),
        ("activeDeadlineSeconds", spec.active_deadline_seconds),
        ("backoffLimit", spec.backoff_limit.map(Into::into)),
        ("ttlSecondsAfterFinished", spec.ttl_seconds_after_finished.map(Into::into)),
        ("backoffLimitPerIndex", spec.backoff_limit_per_index.map(Into::into)),
        ("maxFailedIndexes", spec.max_failed_indexes.map(Into::into)),
    ];
    for (field, number) in numbers {
        check::non_negative(number.unwrap_or(0), &path.child(field), errors);
    }
    if spec.max_failed_indexes.is_some() && spec.backoff_limit_per_index.is_none() {
        let path = path.child("backoffLimitPerIndex");
        errors.required(&path, "when maxFailedIndexes is specified");
    }
}

fn validate_indexed(spec: &JobSpec, path: &Path, errors: &mut FieldErrors) {
    if spec.completions.is_none() {
        errors.required(&path.child("completions"), "when completion mode is Indexed");
    }
    if let Some(parallelism) = spec.parallelism.filter(|it| *it > PARALLELISM_MAX) {
        let detail = format!(
            "must be less than or equal to {PARALLELISM_MAX} when completion mode is Indexed"
        );
        errors.invalid(&path.child("parallelism"), parallelism, &detail);
    }
    let Some(failed) = spec.max_failed_indexes else { return };
    let path = path.child("maxFailedIndexes");
    if spec.completions.is_some_and(|it| failed > it) {
        errors.invalid(&path, failed, "must be less than or equal to completions");
    }
    if failed > FAILED_INDEXES_MAX {
        let detail = format!("must be less than or equal to {FAILED_INDEXES_MAX}");
        errors.invalid(&path, failed, &detail);
    }
}

fn validate_many(spec: &JobSpec, path: &Path, errors: &mut FieldErrors) {
    let has_many = spec.completions.is_some_and(|it| it > COMPLETIONS_MANY);
    if !has_many || spec.backoff_limit_per_index.is_none() {
        return;
    }
    if spec.max_failed_indexes.is_none() {
        let detail = format!("must be specified when completions is above {COMPLETIONS_MANY}");
        errors.required(&path.child("maxFailedIndexes"), &detail);
    }
    for (field, value, max) in [
        ("parallelism", spec.parallelism, PARALLELISM_OF_MANY_MAX),
        ("maxFailedIndexes", spec.max_failed_indexes, FAILED_INDEXES_OF_MANY_MAX),
    ] {
        if let Some(value) = value.filter(|it| *it > max) {
            let detail = format!(
                "must be less than or equal to {max} when completions are above {COMPLETIONS_MANY} \
                 and used with backoff limit per index"
            );
            errors.invalid(&path.child(field), value, &detail);
        }
    }
}

/// Whether a failure counts is known only when the pod has failed.
fn validate_replacement(spec: &JobSpec, path: &Path, errors: &mut FieldErrors) {
    let Some(policy) = spec.pod_replacement_policy.as_deref() else { return };
    let supported: &[&str] = match &spec.pod_failure_policy {
        Some(_) => &["Failed"],
        None => &["Failed", "TerminatingOrFailed"],
    };
    if !supported.contains(&policy) {
        errors.not_supported(path, policy, supported);
    }
}

/// Pods of a Job end. `Always` is also what a template says that says nothing.
fn validate_restarts(spec: &JobSpec, path: &Path, errors: &mut FieldErrors) {
    let pod = spec.template.spec.as_ref();
    match text(pod.and_then(|it| it.restart_policy.as_ref())) {
        "" | "Always" => errors.required(path, "valid values: \"OnFailure\", \"Never\""),
        "Never" => {}
        "OnFailure" if spec.pod_failure_policy.is_none() => {}
        "OnFailure" => {
            let detail = "only \"Never\" is supported when podFailurePolicy is specified";
            errors.invalid(path, "OnFailure", detail);
        }
        other => errors.not_supported_as_listed(path, other, &["OnFailure", "Never"]),
    }
}
