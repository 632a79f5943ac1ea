//! What Deployment, ReplicaSet and ReplicationController have in common.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use serde_json::Value;

use apimachinery::FieldErrors;
use apimachinery::field::Path;
use apimachinery::selector::Labels;
use apimachinery::validation::validate_label_selector;

use crate::check;

/// Checks `spec.selector` and returns what it selects: nothing when it is absent or malformed.
pub(crate) fn validate_selector(
    selector: &LabelSelector,
    path: &Path,
    errors: &mut FieldErrors,
) -> Labels {
    if *selector == LabelSelector::default() {
        errors.required(path, "");
        return Labels::nothing();
    }
    validate_label_selector(selector, path, errors);
    Labels::from_selector(Some(selector)).unwrap_or_else(|_| Labels::nothing())
}

pub(crate) fn validate_selector_unchanged(
    selector: &LabelSelector,
    stored: &LabelSelector,
    errors: &mut FieldErrors,
) {
    if !crate::semantic::equal(selector, stored) {
        let shown = serde_json::to_value(selector).unwrap_or_default();
        errors.invalid(&Path::new("spec.selector"), shown, "field is immutable");
    }
}

/// The text form of a selector, for the `scale` subresource.
pub(crate) fn selector_text(selector: &LabelSelector) -> String {
    Labels::from_selector(Some(selector)).map(|it| it.to_string()).unwrap_or_default()
}

/// A count, or a percentage of one.
pub(crate) fn validate_count_or_percent(
    value: &IntOrString,
    path: &Path,
    errors: &mut FieldErrors,
) {
    match value {
        IntOrString::Int(number) => check::non_negative(*number, path, errors),
        IntOrString::String(text) => {
            let digits = text.strip_suffix('%').unwrap_or_default();
            if digits.is_empty() || !digits.bytes().all(|it| it.is_ascii_digit()) {
                errors.invalid(
                    path,
                    text.as_str(),
                    "a valid percent string must be a numeric string followed by an ending '%' \
                     (e.g. '1%',  or '93%', regex used for validation is '[0-9]+%')",
                );
            }
        }
    }
}

/// The number in a count or a percentage.
pub(crate) fn number(value: &IntOrString) -> i64 {
    match value {
        IntOrString::Int(number) => i64::from(*number),
        IntOrString::String(text) => text.trim_end_matches('%').parse().unwrap_or(0),
    }
}

/// Counts in a status: none negative, none above `status.replicas`.
pub(crate) fn validate_status_counts(
    replicas: i32,
    counts: &[(&str, i32)],
    errors: &mut FieldErrors,
) {
    let path = Path::new("status");
    check::non_negative(replicas, &path.child("replicas"), errors);
    for (field, count) in counts {
        let path = path.child(field);
        check::non_negative(*count, &path, errors);
        if *count > replicas {
            errors.invalid(&path, Value::from(*count), "cannot be greater than status.replicas");
        }
    }
}
