//! What is wrong with a PodDisruptionBudget.

use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use apimachinery::FieldErrors;
use apimachinery::field::Path;
use apimachinery::validation::validate_label_selector;

use super::PodDisruptionBudget;
use crate::apps::workload;
use crate::{check, codec, conditions};

const EVICTION_POLICIES: &[&str] = &["AlwaysAllow", "IfHealthyBudget"];

pub(super) fn validate(budget: &PodDisruptionBudget, errors: &mut FieldErrors) {
    let Some(spec) = &budget.spec else { return };
    let path = Path::new("spec");
    if spec.min_available.is_some() && spec.max_unavailable.is_some() {
        let detail = "minAvailable and maxUnavailable cannot be both set";
        errors.invalid(&path, codec::tree(spec), detail);
    }
    for (name, value) in
        [("minAvailable", &spec.min_available), ("maxUnavailable", &spec.max_unavailable)]
    {
        if let Some(value) = value {
            validate_bound(value, &path.child(name), errors);
        }
    }
    if let Some(selector) = &spec.selector {
        validate_label_selector(selector, &path.child("selector"), errors);
    }
    if let Some(policy) = spec.unhealthy_pod_eviction_policy.as_deref()
        && !EVICTION_POLICIES.contains(&policy)
    {
        errors.not_supported(&path.child("unhealthyPodEvictionPolicy"), policy, EVICTION_POLICIES);
    }
}

fn validate_bound(value: &IntOrString, path: &Path, errors: &mut FieldErrors) {
    workload::validate_count_or_percent(value, path, errors);
    workload::validate_at_most_all(value, path, errors);
}

pub(super) fn validate_status(budget: &PodDisruptionBudget, errors: &mut FieldErrors) {
    let Some(status) = &budget.status else { return };
    let path = Path::new("status");
    let conditions = status.conditions.as_deref().unwrap_or_default();
    conditions::validate(conditions, &path.child("conditions"), errors);
    for (name, count) in [
        ("disruptionsAllowed", status.disruptions_allowed),
        ("currentHealthy", status.current_healthy),
        ("desiredHealthy", status.desired_healthy),
        ("expectedPods", status.expected_pods),
    ] {
        check::non_negative(count.unwrap_or(0), &path.child(name), errors);
    }
}
