//! Attributes of devices: each has one value, or one list of values.

use k8s_openapi::api::resource::v1::DeviceAttribute;
use serde_json::Value;

use apimachinery::FieldErrors;
use apimachinery::field::Path;

use crate::codec;

const VALUE_BYTES_MAX: usize = 64;

/// Each item of a list counts.
pub(super) fn n_values(attribute: &DeviceAttribute) -> usize {
    let n_items = attribute.bools.as_ref().map_or(0, Vec::len)
        + attribute.ints.as_ref().map_or(0, Vec::len)
        + attribute.strings.as_ref().map_or(0, Vec::len)
        + attribute.versions.as_ref().map_or(0, Vec::len);
    n_items.max(1)
}

pub(super) fn validate(attribute: &DeviceAttribute, path: &Path, errors: &mut FieldErrors) {
    if let Some(text) = &attribute.string {
        validate_length(text, &path.child("string"), errors);
    }
    if let Some(version) = &attribute.version {
        validate_version(version, &path.child("version"), errors);
    }
    for (field, length) in [
        ("bools", attribute.bools.as_ref().map(Vec::len)),
        ("ints", attribute.ints.as_ref().map(Vec::len)),
        ("strings", attribute.strings.as_ref().map(Vec::len)),
        ("versions", attribute.versions.as_ref().map(Vec::len)),
    ] {
        if length == Some(0) {
            let why = "must not be empty if specified";
            errors.invalid(&path.child(field), Value::Array(Vec::new()), why);
        }
    }
    for (index, text) in attribute.strings.iter().flatten().enumerate() {
        validate_length(text, &path.child("strings").index(index), errors);
    }
    for (index, version) in attribute.versions.iter().flatten().enumerate() {
        validate_version(version, &path.child("versions").index(index), errors);
    }
    let n_set = codec::tree(attribute).as_object().map_or(0, serde_json::Map::len);
    if n_set != 1 {
        let shown = if n_set == 0 { Value::from("") } else { codec::tree(attribute) };
        errors.invalid(path, shown, "exactly one value must be specified");
    }
}

fn validate_length(text: &str, path: &Path, errors: &mut FieldErrors) {
    if text.len() > VALUE_BYTES_MAX {
        errors.too_long(path, VALUE_BYTES_MAX);
    }
}

fn validate_version(version: &str, path: &Path, errors: &mut FieldErrors) {
    if !is_semantic_version(version) {
        errors.invalid(path, version, "must be a string compatible with semver.org spec 2.0.0");
    }
    validate_length(version, path, errors);
}

/// `1.2.3`, `1.2.3-alpha.1+build.5`.
fn is_semantic_version(text: &str) -> bool {
    let is_number = |it: &str| {
        !it.is_empty()
            && it.bytes().all(|it| it.is_ascii_digit())
            && (it == "0" || !it.starts_with('0'))
    };
    let is_word =
        |it: &str| !it.is_empty() && it.bytes().all(|it| it.is_ascii_alphanumeric() || it == b'-');
    let is_prerelease =
        |it: &str| is_word(it) && (is_number(it) || it.bytes().any(|it| !it.is_ascii_digit()));
    let (rest, build) = text.split_once('+').map_or((text, None), |it| (it.0, Some(it.1)));
    let (core, prerelease) = rest.split_once('-').map_or((rest, None), |it| (it.0, Some(it.1)));
    core.split('.').count() == 3
        && core.split('.').all(is_number)
        && prerelease.is_none_or(|it| it.split('.').all(is_prerelease))
        && build.is_none_or(|it| it.split('.').all(is_word))
}

#[cfg(test)]
mod tests {
    use super::is_semantic_version;

    #[test]
    fn versions_are_semantic() {
        for version in ["0.0.0", "1.20.3", "1.2.3-alpha.1", "1.2.3--x.7+001.a-b", "1.2.3+5"] {
            assert!(is_semantic_version(version), "{version}");
        }
        for version in ["1.2", "01.2.3", "1.2.3-", "1.2.3-01", "1.2.3+", "v1.2.3", "1.2.3.4"] {
            assert!(!is_semantic_version(version), "{version}");
        }
    }
}
