//! Which devices fit, as expressions, and how they are to be set up, as a driver's own parameters.

use k8s_openapi::api::resource::v1::{DeviceSelector, OpaqueDeviceConfiguration};
use k8s_openapi::apimachinery::pkg::runtime::RawExtension;
use serde_json::Value;

use apimachinery::FieldErrors;
use apimachinery::field::Path;

use super::{bounded, expressions, names};
use crate::codec;

pub(super) const CONFIGS_MAX: usize = 32;
const SELECTORS_MAX: usize = 32;
const EXPRESSION_BYTES_MAX: usize = 10 * 1024;
pub(super) const PARAMETER_BYTES_MAX: usize = 10 * 1024;

/// Whether a value was stored before, under rules that may have been laxer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Seen {
    New,
    Before,
}

/// What is too long is not even compiled.
pub(super) fn validate_selectors(
    selectors: &[DeviceSelector],
    path: &Path,
    errors: &mut FieldErrors,
) {
    bounded::list(selectors, SELECTORS_MAX, path, errors, |selector, path, errors| {
        let path = path.child("cel");
        let Some(cel) = &selector.cel else { return errors.required(&path, "") };
        let path = path.child("expression");
        if cel.expression.len() > EXPRESSION_BYTES_MAX {
            errors.too_long(&path, EXPRESSION_BYTES_MAX);
        } else {
            expressions::validate(&cel.expression, &path, errors);
        }
    });
}

/// `path` is of what has the field `opaque`.
pub(super) fn validate_opaque(
    opaque: Option<&OpaqueDeviceConfiguration>,
    seen: Seen,
    path: &Path,
    errors: &mut FieldErrors,
) {
    let path = path.child("opaque");
    let Some(opaque) = opaque else { return errors.required(&path, "") };
    names::validate_driver(&opaque.driver, &path.child("driver"), errors);
    validate_raw(&opaque.parameters, seen, &path.child("parameters"), errors);
}

/// An object, whatever is in it.
pub(super) fn validate_raw(raw: &RawExtension, seen: Seen, path: &Path, errors: &mut FieldErrors) {
    if raw.0.is_null() {
        return errors.required(path, "");
    }
    let n_bytes = codec::encode(&raw.0).len();
    if seen == Seen::New && n_bytes > PARAMETER_BYTES_MAX {
        errors.too_long(path, PARAMETER_BYTES_MAX);
    } else if !matches!(raw.0, Value::Object(_)) {
        errors.invalid(path, "<value omitted>", "must be a valid JSON object");
    }
}
