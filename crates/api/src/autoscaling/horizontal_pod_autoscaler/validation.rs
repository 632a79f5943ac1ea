//! What is wrong with a HorizontalPodAutoscaler, but for its metrics.

use k8s_openapi::api::autoscaling::v2::{
    CrossVersionObjectReference, HPAScalingPolicy, HPAScalingRules, HorizontalPodAutoscaler,
    MetricSpec,
};

use apimachinery::FieldErrors;
use apimachinery::field::Path;
use apimachinery::quantity::Amount;
use apimachinery::validation::is_path_segment;

use super::metrics;
use crate::check::{self, text};

const PERIOD_SECONDS_MAX: i32 = 1_800;
const WINDOW_SECONDS_MAX: i32 = 3_600;

/// How strictly the apiVersion of a reference is looked at. It was not always, so that what is
/// stored may be wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ApiVersion {
    Any,
    Valid,
    /// Valid, and of a group that has a name.
    Grouped,
}

pub(super) fn validate(
    autoscaler: &HorizontalPodAutoscaler,
    stored: Option<&HorizontalPodAutoscaler>,
    errors: &mut FieldErrors,
) {
    let (path, spec) = (Path::new("spec"), &autoscaler.spec);
    // The gate HPAScaleToZero, which the server asks, lets it be 0 if something is measured that is
    // there without pods; where it is 0 already, it may stay.
    let was_zero = stored.is_some_and(|it| it.spec.min_replicas == Some(0));
    let mut metrics = spec.metrics.iter().flatten();
    let is_outer = |it: &MetricSpec| matches!(it.type_.as_str(), "Object" | "External");
    let min_allowed = if was_zero || metrics.any(is_outer) { 0 } else { 1 };
    let min = spec.min_replicas;
    if let Some(min) = min.filter(|it| *it < min_allowed) {
        let why = format!("must be greater than or equal to {min_allowed}");
        errors.invalid(&path.child("minReplicas"), min, &why);
    }
    let max = spec.max_replicas;
    let max_path = path.child("maxReplicas");
    if max == 0 {
        errors.required(&max_path, "must be set and greater than 0");
    } else if max < 0 {
        errors.invalid(&max_path, max, "must be greater than or equal to 1");
    }
    if min.is_some_and(|it| max < it) {
        errors.invalid(&max_path, max, "must be greater than or equal to `minReplicas`");
    }
    let target = &spec.scale_target_ref;
    let strictness = strictness(target, stored.map(|it| &it.spec.scale_target_ref));
    validate_reference(target, strictness, &path.child("scaleTargetRef"), errors);
    let old = stored.map(|it| it.spec.metrics.as_deref().unwrap_or_default());
    let all = spec.metrics.as_deref().unwrap_or_default();
    metrics::validate_all(all, old.unwrap_or_default(), min, &path.child("metrics"), errors);
    if let Some(behavior) = &spec.behavior {
        let path = path.child("behavior");
        validate_rules(behavior.scale_up.as_ref(), &path.child("scaleUp"), errors);
        validate_rules(behavior.scale_down.as_ref(), &path.child("scaleDown"), errors);
    }
}

pub(super) fn validate_status(autoscaler: &HorizontalPodAutoscaler, errors: &mut FieldErrors) {
    let Some(status) = &autoscaler.status else { return };
    let path = Path::new("status");
    let current = status.current_replicas.unwrap_or(0);
    check::non_negative(current, &path.child("currentReplicas"), errors);
    check::non_negative(status.desired_replicas, &path.child("desiredReplicas"), errors);
}

fn strictness(
    target: &CrossVersionObjectReference,
    stored: Option<&CrossVersionObjectReference>,
) -> ApiVersion {
    let kind = |it: &CrossVersionObjectReference| {
        (text(it.api_version.as_ref()).to_owned(), it.kind.clone())
    };
    match stored {
        Some(stored) if kind(stored) == kind(target) => ApiVersion::Any,
        // The one kind of the core group that can be scaled.
        _ if target.kind == "ReplicationController" => ApiVersion::Valid,
        _ => ApiVersion::Grouped,
    }
}

pub(super) fn validate_reference(
    reference: &CrossVersionObjectReference,
    strictness: ApiVersion,
    path: &Path,
    errors: &mut FieldErrors,
) {
    for (field, value) in [("kind", &reference.kind), ("name", &reference.name)] {
        if value.is_empty() {
            errors.required(&path.child(field), "");
        } else {
            check::format(value, &is_path_segment(value), &path.child(field), errors);
        }
    }
    let api_version = text(reference.api_version.as_ref());
    if let Some(why) = api_version_problem(api_version, strictness) {
        errors.invalid(&path.child("apiVersion"), api_version, &why);
    }
}

pub(super) fn api_version_problem(api_version: &str, strictness: ApiVersion) -> Option<String> {
    if strictness == ApiVersion::Any {
        return None;
    }
    match api_version.matches('/').count() {
        0 if strictness == ApiVersion::Valid => None,
        0 => Some("apiVersion must specify API group".to_owned()),
        1 if api_version.starts_with('/') && strictness == ApiVersion::Grouped => {
            Some("apiVersion must specify API group".to_owned())
        }
        1 => None,
        _ => Some(format!("unexpected GroupVersion string: {api_version}")),
    }
}

fn validate_rules(rules: Option<&HPAScalingRules>, path: &Path, errors: &mut FieldErrors) {
    let Some(rules) = rules else { return };
    if let Some(window) = rules.stabilization_window_seconds {
        let path = path.child("stabilizationWindowSeconds");
        if window < 0 {
            errors.invalid(&path, window, "must be greater than or equal to zero");
        }
        if window > WINDOW_SECONDS_MAX {
            let why = format!("must be less than or equal to {WINDOW_SECONDS_MAX}");
            errors.invalid(&path, window, &why);
        }
    }
    if let Some(select) = &rules.select_policy {
        let supported = &["Disabled", "Max", "Min"];
        if !supported.contains(&select.as_str()) {
            errors.not_supported(&path.child("selectPolicy"), select.as_str(), supported);
        }
    }
    let policies_path = path.child("policies");
    let policies = rules.policies.as_deref().unwrap_or_default();
    if policies.is_empty() {
        errors.required(&policies_path, "must specify at least one Policy");
    }
    for (index, policy) in policies.iter().enumerate() {
        validate_policy(policy, &policies_path.index(index), errors);
    }
    if let Some(tolerance) = &rules.tolerance
        && Amount::parse(&tolerance.0).is_ok_and(Amount::is_negative)
    {
        let path = path.child("tolerance");
        errors.invalid(&path, tolerance.0.as_str(), "must be greater than or equal to 0");
    }
}

fn validate_policy(policy: &HPAScalingPolicy, path: &Path, errors: &mut FieldErrors) {
    let supported = &["Percent", "Pods"];
    if !supported.contains(&policy.type_.as_str()) {
        errors.not_supported(&path.child("type"), policy.type_.as_str(), supported);
    }
    if policy.value <= 0 {
        errors.invalid(&path.child("value"), policy.value, "must be greater than zero");
    }
    let (seconds, path) = (policy.period_seconds, path.child("periodSeconds"));
    if seconds <= 0 {
        errors.invalid(&path, seconds, "must be greater than zero");
    }
    if seconds > PERIOD_SECONDS_MAX {
        let why = format!("must be less than or equal to {PERIOD_SECONDS_MAX}");
        errors.invalid(&path, seconds, &why);
    }
}
