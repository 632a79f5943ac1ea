//! Taints of devices, and what tolerates them.

use k8s_openapi::api::resource::v1::{DeviceTaint, DeviceToleration};

use apimachinery::FieldErrors;
use apimachinery::field::Path;
use apimachinery::validation::{is_label_value, is_qualified_name};

use crate::check::{self, text};

const EFFECTS: &[&str] = &["NoExecute", "NoSchedule", "None"];
const OPERATORS: &[&str] = &["Equal", "Exists"];

/// An effect that stays may be one of a later version.
pub(super) fn validate(
    taint: &DeviceTaint,
    stored: Option<&DeviceTaint>,
    path: &Path,
    errors: &mut FieldErrors,
) {
    let (key, value) = (taint.key.as_str(), text(taint.value.as_ref()));
    check::format(key, &is_qualified_name(key), &path.child("key"), errors);
    check::format(value, &is_label_value(value), &path.child("value"), errors);
    if stored.is_none_or(|it| it.effect != taint.effect) {
        check::one_of(&taint.effect, EFFECTS, &path.child("effect"), errors);
    }
}

pub(super) fn validate_toleration(
    toleration: &DeviceToleration,
    path: &Path,
    errors: &mut FieldErrors,
) {
    let (key, value) = (text(toleration.key.as_ref()), text(toleration.value.as_ref()));
    if !key.is_empty() {
        check::format(key, &is_qualified_name(key), &path.child("key"), errors);
    }
    match text(toleration.operator.as_ref()) {
        "Exists" if !value.is_empty() => {
            errors.invalid(&path.child("value"), value, "must be empty for operator `Exists`");
        }
        "Equal" => check::format(value, &is_label_value(value), &path.child("value"), errors),
        other => check::one_of(other, OPERATORS, &path.child("operator"), errors),
    }
    let effect = text(toleration.effect.as_ref());
    check::one_of_if_set(effect, EFFECTS, &path.child("effect"), errors);
}
