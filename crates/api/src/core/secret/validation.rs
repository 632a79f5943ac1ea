//! What is wrong with a Secret: keys, size, and what its type needs.

use std::collections::BTreeMap;

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use serde_json::Value;

use apimachinery::FieldErrors;
use apimachinery::field::Path;
use apimachinery::validation::is_config_key;

use crate::check::{self, text};

const BYTES_MAX: usize = 1024 * 1024;

pub(super) fn validate(secret: &Secret, errors: &mut FieldErrors) {
    let empty = BTreeMap::new();
    let data = secret.data.as_ref().unwrap_or(&empty);
    let path = Path::new("data");
    for key in data.keys() {
        check::format(key, &is_config_key(key), &path.key(key), errors);
    }
    if data.values().map(|it| it.0.len()).sum::<usize>() > BYTES_MAX {
        errors.too_long(&path, BYTES_MAX);
    }
    match text(secret.type_.as_ref()) {
        "kubernetes.io/service-account-token" => {
            const KEY: &str = "kubernetes.io/service-account.name";
            let annotations = secret.metadata.annotations.as_ref();
            if annotations.and_then(|it| it.get(KEY)).is_none_or(String::is_empty) {
                errors.required(&Path::new("metadata").child("annotations").key(KEY), "");
            }
        }
        "kubernetes.io/dockercfg" => validate_json(data, ".dockercfg", &path, errors),
        "kubernetes.io/dockerconfigjson" => validate_json(data, ".dockerconfigjson", &path, errors),
        "kubernetes.io/basic-auth"
            if !data.contains_key("username") && !data.contains_key("password") =>
        {
            errors.required(&path.key("username"), "");
            errors.required(&path.key("password"), "");
        }
        "kubernetes.io/ssh-auth" if data.get("ssh-privatekey").is_none_or(|it| it.0.is_empty()) => {
            errors.required(&path.key("ssh-privatekey"), "");
        }
        "kubernetes.io/tls" => {
            for key in ["tls.crt", "tls.key"] {
                if !data.contains_key(key) {
                    errors.required(&path.key(key), "");
                }
            }
        }
        _ => {}
    }
}

fn validate_json(
    data: &BTreeMap<String, ByteString>,
    key: &str,
    path: &Path,
    errors: &mut FieldErrors,
) {
    match data.get(key) {
        None => errors.required(&path.key(key), ""),
        Some(bytes) => {
            if let Err(err) = serde_json::from_slice::<Value>(&bytes.0) {
                errors.invalid(&path.key(key), "<secret contents redacted>", &err.to_string());
            }
        }
    }
}

pub(super) fn validate_update(secret: &Secret, stored: &Secret, errors: &mut FieldErrors) {
    let type_ = text(secret.type_.as_ref());
    check::immutable(secret.type_ == stored.type_, type_, &Path::new("type"), errors);
    if stored.immutable != Some(true) {
        return;
    }
    let detail = "field is immutable when `immutable` is set";
    if secret.immutable != Some(true) {
        errors.forbidden(&Path::new("immutable"), detail);
    }
    // A key that is there with nothing in it is a change.
    let data = |it: &Secret| it.data.clone().unwrap_or_default();
    if data(secret) != data(stored) {
        errors.forbidden(&Path::new("data"), detail);
    }
}
