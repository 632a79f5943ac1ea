//! Which failures of pods count, and when enough of a Job has succeeded.

use std::collections::BTreeSet;

use k8s_openapi::api::batch::v1::{
    JobSpec, PodFailurePolicyOnExitCodesRequirement, PodFailurePolicyOnPodConditionsPattern,
    PodFailurePolicyRule, SuccessPolicy, SuccessPolicyRule,
};

use apimachinery::FieldErrors;
use apimachinery::field::Path;
use apimachinery::validation::is_qualified_name;

use super::super::indexes;
use crate::check::{self, text};

const RULES_MAX: usize = 20;
const EXIT_CODES_MAX: usize = 255;
const PATTERNS_MAX: usize = 20;
const INDEXES_BYTES_MAX: usize = 64 * 1024;

const FAIL_INDEX: &str = "FailIndex";
const ACTIONS: &[&str] = &["Count", FAIL_INDEX, "FailJob", "Ignore"];
const OPERATORS: &[&str] = &["In", "NotIn"];
const STATUSES: &[&str] = &["False", "True", "Unknown"];

pub(super) fn validate_failure(spec: &JobSpec, path: &Path, errors: &mut FieldErrors) {
    let Some(policy) = &spec.pod_failure_policy else { return };
    let path = path.child("rules");
    if policy.rules.len() > RULES_MAX {
        errors.too_many(&path, policy.rules.len(), RULES_MAX);
    }
    let pod = spec.template.spec.as_ref();
    let containers = pod.into_iter().flat_map(|it| &it.containers);
    let init_containers = pod.into_iter().flat_map(|it| it.init_containers.iter().flatten());
    let names: BTreeSet<&str> =
        containers.chain(init_containers).map(|it| it.name.as_str()).collect();
    for (index, rule) in policy.rules.iter().enumerate() {
        let path = path.index(index);
        validate_action(rule, spec, &path.child("action"), errors);
        validate_rule(rule, &names, &path, errors);
    }
}

fn validate_action(
    rule: &PodFailurePolicyRule,
    spec: &JobSpec,
    path: &Path,
    errors: &mut FieldErrors,
) {
    if rule.action == FAIL_INDEX && spec.backoff_limit_per_index.is_none() {
        let detail = "requires the backoffLimitPerIndex to be set";
        errors.invalid(path, FAIL_INDEX, detail);
    }
    one_of(&rule.action, ACTIONS, path, errors);
}

fn validate_rule(
    rule: &PodFailurePolicyRule,
    containers: &BTreeSet<&str>,
    path: &Path,
    errors: &mut FieldErrors,
) {
    let patterns = rule.on_pod_conditions.as_deref().unwrap_or_default();
    if let Some(codes) = &rule.on_exit_codes {
        validate_exit_codes(codes, containers, &path.child("onExitCodes"), errors);
    }
    validate_patterns(patterns, &path.child("onPodConditions"), errors);
    let detail = match (rule.on_exit_codes.is_some(), !patterns.is_empty()) {
        (true, true) => "specifying both OnExitCodes and OnPodConditions is not supported",
        (false, false) => "specifying one of OnExitCodes and OnPodConditions is required",
        _ => return,
    };
    errors.invalid_unshown(path, detail);
}

fn validate_exit_codes(
    codes: &PodFailurePolicyOnExitCodesRequirement,
    containers: &BTreeSet<&str>,
    path: &Path,
    errors: &mut FieldErrors,
) {
    one_of(&codes.operator, OPERATORS, &path.child("operator"), errors);
    if let Some(name) = codes.container_name.as_deref()
        && !containers.contains(name)
    {
        let detail = "must be one of the container or initContainer names in the pod template";
        errors.invalid(&path.child("containerName"), name, detail);
    }
    let path = path.child("values");
    let values = &codes.values;
    if values.is_empty() {
        errors.invalid(&path, serde_json::Value::Null, "at least one value is required");
    } else if values.len() > EXIT_CODES_MAX {
        errors.too_many(&path, values.len(), EXIT_CODES_MAX);
    }
    let mut seen = BTreeSet::new();
    for (index, code) in values.iter().enumerate() {
        let path = path.index(index);
        if codes.operator == "In" && *code == 0 {
            errors.invalid(&path, 0, "must not be 0 for the In operator");
        }
        if !seen.insert(code) {
            errors.duplicate(&path, *code);
        }
    }
    if !values.is_sorted() {
        errors.invalid(&path, values.clone(), "must be ordered");
    }
}

fn validate_patterns(
    patterns: &[PodFailurePolicyOnPodConditionsPattern],
    path: &Path,
    errors: &mut FieldErrors,
) {
    if patterns.len() > PATTERNS_MAX {
        errors.too_many(path, patterns.len(), PATTERNS_MAX);
    }
    for (index, pattern) in patterns.iter().enumerate() {
        let path = path.index(index);
        let type_ = &pattern.type_;
        check::format(type_, &is_qualified_name(type_), &path.child("type"), errors);
        one_of(text(pattern.status.as_ref()), STATUSES, &path.child("status"), errors);
    }
}

/// Names the choices also where nothing was chosen.
fn one_of(value: &str, supported: &[&str], path: &Path, errors: &mut FieldErrors) {
    if value.is_empty() {
        let choices: Vec<String> = supported.iter().map(|it| format!("{it:?}")).collect();
        errors.required(path, &format!("valid values: [{}]", choices.join(" ")));
    } else if !supported.contains(&value) {
        errors.not_supported(path, value, supported);
    }
}

/// Of an indexed Job. One without completions is refused elsewhere.
pub(super) fn validate_success(
    policy: &SuccessPolicy,
    completions: Option<i32>,
    path: &Path,
    errors: &mut FieldErrors,
) {
    let path = path.child("rules");
    if policy.rules.is_empty() {
        let detail = "at least one rules must be specified when the successPolicy is specified";
        errors.required(&path, detail);
    }
    if policy.rules.len() > RULES_MAX {
        errors.too_many(&path, policy.rules.len(), RULES_MAX);
    }
    for (index, rule) in policy.rules.iter().enumerate() {
        validate_success_rule(rule, completions, &path.index(index), errors);
    }
}

fn validate_success_rule(
    rule: &SuccessPolicyRule,
    completions: Option<i32>,
    path: &Path,
    errors: &mut FieldErrors,
) {
    if rule.succeeded_count.is_none() && rule.succeeded_indexes.is_none() {
        let detail = "at least one of succeededCount or succeededIndexes must be specified";
        errors.required(path, detail);
    }
    let mut n_indexes = None;
    if let Some(text) = &rule.succeeded_indexes {
        let path = path.child("succeededIndexes");
        if text.len() > INDEXES_BYTES_MAX {
            errors.too_long(&path, INDEXES_BYTES_MAX);
        }
        let counted = completions.map_or(Ok(0), |it| indexes::count(text, it));
        n_indexes = Some(*counted.as_ref().unwrap_or(&0));
        if let Err(problem) = counted {
            let detail = format!("error parsing succeededIndexes: {problem}");
            errors.invalid(&path, text.as_str(), &detail);
        }
    }
    let (Some(count), Some(completions)) = (rule.succeeded_count, completions) else { return };
    let path = path.child("succeededCount");
    check::non_negative(count, &path, errors);
    if count > completions {
        let detail = format!(
            "must be less than or equal to {completions} (the number of specified completions)"
        );
        errors.invalid(&path, count, &detail);
    }
    if let Some(n_indexes) = n_indexes.filter(|it| count > *it) {
        let detail = format!(
            "must be less than or equal to {n_indexes} (the number of indexes in the specified \
             succeededIndexes field)"
        );
        errors.invalid(&path, count, &detail);
    }
}
