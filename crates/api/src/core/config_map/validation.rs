//! What is wrong with a ConfigMap.

use k8s_openapi::api::core::v1::ConfigMap;

use apimachinery::FieldErrors;
use apimachinery::field::Path;
use apimachinery::validation::is_config_key;

use crate::check;

const BYTES_MAX: usize = 1024 * 1024;

pub(super) fn validate(config_map: &ConfigMap, errors: &mut FieldErrors) {
    let mut n_bytes = 0;
    for (key, value) in config_map.data.iter().flatten() {
        let path = Path::new("data").key(key);
        check::format(key, &is_config_key(key), &path, errors);
        if config_map.binary_data.as_ref().is_some_and(|it| it.contains_key(key)) {
            errors.invalid(&path, key.as_str(), "duplicate of key present in binaryData");
        }
        n_bytes += value.len();
    }
    for (key, value) in config_map.binary_data.iter().flatten() {
        check::format(key, &is_config_key(key), &Path::new("binaryData").key(key), errors);
        n_bytes += value.0.len();
    }
    if n_bytes > BYTES_MAX {
        errors.too_long(&Path::root(), BYTES_MAX);
    }
}

pub(super) fn validate_update(
    config_map: &ConfigMap,
    stored: &ConfigMap,
    errors: &mut FieldErrors,
) {
    if stored.immutable != Some(true) {
        return;
    }
    let detail = "field is immutable when `immutable` is set";
    if config_map.immutable != Some(true) {
        errors.forbidden(&Path::new("immutable"), detail);
    }
    // A key that is there with nothing in it is a change.
    let data = |it: &ConfigMap| it.data.clone().unwrap_or_default();
    if data(config_map) != data(stored) {
        errors.forbidden(&Path::new("data"), detail);
    }
    let binary = |it: &ConfigMap| it.binary_data.clone().unwrap_or_default();
    if binary(config_map) != binary(stored) {
        errors.forbidden(&Path::new("binaryData"), detail);
    }
}
