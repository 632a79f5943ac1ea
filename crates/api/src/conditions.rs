//! Conditions in the form that kinds share (`Condition` of meta/v1): what is wrong with them.

use std::collections::BTreeSet;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use apimachinery::FieldErrors;
use apimachinery::field::Path;
use apimachinery::validation::is_qualified_name;

use crate::{check, codec};

const STATUSES: &[&str] = &["False", "True", "Unknown"];
const REASON_BYTES_MAX: usize = 1024;
const MESSAGE_BYTES_MAX: usize = 32 * 1024;

pub(crate) fn validate(conditions: &[Condition], path: &Path, errors: &mut FieldErrors) {
    let mut types = BTreeSet::new();
    for (index, condition) in conditions.iter().enumerate() {
        let path = path.index(index);
        if !types.insert(&condition.type_) {
            errors.duplicate(&path.child("type"), condition.type_.as_str());
        }
        validate_one(condition, &path, errors);
    }
}

fn validate_one(condition: &Condition, path: &Path, errors: &mut FieldErrors) {
    let type_ = &condition.type_;
    check::format(type_, &is_qualified_name(type_), &path.child("type"), errors);
    if !STATUSES.contains(&&*condition.status) {
        errors.not_supported(&path.child("status"), condition.status.as_str(), STATUSES);
    }
    if let Some(generation @ ..0) = condition.observed_generation {
        let path = path.child("observedGeneration");
        errors.invalid(&path, generation, "must be greater than or equal to zero");
    }
    if codec::is_zero_time(condition.last_transition_time.0) {
        errors.required(&path.child("lastTransitionTime"), "");
    }
    let path_reason = path.child("reason");
    if condition.reason.is_empty() {
        errors.required(&path_reason, "");
    } else if !is_reason(&condition.reason) {
        errors.invalid(
            &path_reason,
            condition.reason.as_str(),
            "a condition reason must start with alphabetic character, optionally followed by a string of alphanumeric \
             characters or '_,:', and must end with an alphanumeric character or '_' (e.g. 'my_name',  or 'MY_NAME',  or \
             'MyName',  or 'ReasonA,ReasonB',  or 'ReasonA:ReasonB', regex used for validation is \
             '[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?')",
        );
    }
    if condition.reason.len() > REASON_BYTES_MAX {
        errors.too_long(&path_reason, REASON_BYTES_MAX);
    }
    if condition.message.len() > MESSAGE_BYTES_MAX {
        errors.too_long(&path.child("message"), MESSAGE_BYTES_MAX);
    }
}

fn is_reason(text: &str) -> bool {
    let is_inside = |it: u8| it.is_ascii_alphanumeric() || b"_,:".contains(&it);
    let is_last = |it: u8| it.is_ascii_alphanumeric() || it == b'_';
    match text.as_bytes() {
        [only] => only.is_ascii_alphabetic(),
        [first, inside @ .., last] => {
            first.is_ascii_alphabetic() && inside.iter().all(|it| is_inside(*it)) && is_last(*last)
        }
        [] => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn check(conditions: Value, expected: &[&str]) {
        let conditions: Vec<Condition> = serde_json::from_value(conditions).unwrap();
        let mut errors = FieldErrors::new();
        validate(&conditions, &Path::new("conditions"), &mut errors);
        let found: Vec<String> = errors.iter().map(ToString::to_string).collect();
        assert_eq!(found.len(), expected.len(), "{found:?}");
        for (found, expected) in found.iter().zip(expected) {
            assert!(found.starts_with(expected), "{found} does not start with {expected}");
        }
    }

    fn ready(changes: Value) -> Value {
        let mut condition = json!({
            "type": "Ready", "status": "True", "reason": "AllWell", "message": "",
            "lastTransitionTime": "2024-01-02T03:04:05Z",
        });
        let changes = changes.as_object().cloned().unwrap_or_default();
        condition.as_object_mut().unwrap().extend(changes);
        condition
    }

    #[test]
    fn a_type_is_there_once() {
        check(json!([ready(json!({})), ready(json!({"type": "example.org/Other"}))]), &[]);
        check(
            json!([ready(json!({})), ready(json!({"status": "False"}))]),
            &["conditions[1].type: Duplicate value: \"Ready\""],
        );
    }

    #[test]
    fn a_time_is_there() {
        let expected = "conditions[0].lastTransitionTime: Required value";
        check(json!([ready(json!({"lastTransitionTime": "0001-01-01T00:00:00Z"}))]), &[expected]);
    }

    #[test]
    fn each_part_has_its_form() {
        check(
            json!([ready(
                json!({"type": "", "status": "Maybe", "observedGeneration": -1, "reason": ""})
            )]),
            &[
                "conditions[0].type: Invalid value: \"\": name part must be non-empty",
                "conditions[0].type: Invalid value: \"\": name part must consist of",
                "conditions[0].status: Unsupported value: \"Maybe\": supported values: \"False\", \"True\", \"Unknown\"",
                "conditions[0].observedGeneration: Invalid value: -1: must be greater than or equal to zero",
                "conditions[0].reason: Required value",
            ],
        );
        for reason in ["A", "a_", "A,B:c", "Z9"] {
            check(json!([ready(json!({"reason": reason}))]), &[]);
        }
        for reason in ["1", "A,", "A b", "_"] {
            let expected =
                format!("conditions[0].reason: Invalid value: {reason:?}: a condition reason");
            check(json!([ready(json!({"reason": reason}))]), &[&expected]);
        }
        check(
            json!([ready(
                json!({"reason": "A".repeat(1025), "message": "x".repeat(32 * 1024 + 1)})
            )]),
            &["conditions[0].reason: Too long", "conditions[0].message: Too long"],
        );
    }
}
