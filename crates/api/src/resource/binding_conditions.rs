//! Conditions that a device has to have before a pod is bound to it, and those that end the wait.

use std::collections::BTreeSet;

use serde_json::Value;

use apimachinery::FieldErrors;
use apimachinery::field::Path;
use apimachinery::validation::is_qualified_name;

use super::bounded;
use crate::check;

const MAX: usize = 4;

pub(super) fn validate(
    conditions: Option<&[String]>,
    failures: Option<&[String]>,
    path: &Path,
    errors: &mut FieldErrors,
) {
    // An empty list is shown as such, and no list as none.
    let shown = [conditions, failures].map(|it| it.map(<[String]>::to_vec).map(Value::from));
    let [shown_conditions, shown_failures] = shown.map(Option::unwrap_or_default);
    let (conditions, failures) = (conditions.unwrap_or_default(), failures.unwrap_or_default());
    let (conditions_path, failures_path) =
        (path.child("bindingConditions"), path.child("bindingFailureConditions"));
    for (all, path) in [(conditions, &conditions_path), (failures, &failures_path)] {
        bounded::list(all, MAX, path, errors, |it, path, errors| {
            check::format(it, &is_qualified_name(it), path, errors);
        });
    }
    validate_unique(conditions, &conditions_path, errors);
    validate_unique(failures, &failures_path, errors);
    for (index, condition) in failures.iter().enumerate() {
        if conditions.contains(condition) {
            let why = "bindingFailureConditions must not overlap with bindingConditions";
            errors.invalid(&failures_path.index(index), condition.as_str(), why);
        }
    }
    if conditions.is_empty() && !failures.is_empty() {
        let why = "bindingConditions are required to use bindingFailureConditions";
        errors.invalid(&conditions_path, shown_conditions, why);
    }
    if failures.is_empty() && !conditions.is_empty() {
        let why = "bindingFailureConditions are required to use bindingConditions";
        errors.invalid(&failures_path, shown_failures, why);
    }
}

fn validate_unique(all: &[String], path: &Path, errors: &mut FieldErrors) {
    let mut seen = BTreeSet::new();
    for (index, condition) in all.iter().enumerate() {
        if !seen.insert(condition) {
            errors.duplicate(&path.index(index), condition.as_str());
        }
    }
}
