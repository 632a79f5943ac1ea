//! Checks that many kinds share: names, label keys and values, ports, object metadata.
//! Each `is_…` function returns the problems as upstream words them; empty means valid.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta};

use crate::field::{FieldErrors, Path};
use crate::names::{NameRule, Scope};

pub fn is_dns_label(text: &str) -> Vec<String> {
    let _ = text;
    todo!("apimachinery")
}

pub fn is_dns_subdomain(text: &str) -> Vec<String> {
    let _ = text;
    todo!("apimachinery")
}

pub fn is_path_segment(text: &str) -> Vec<String> {
    let _ = text;
    todo!("apimachinery")
}

/// IANA service name, as port names are.
pub fn is_port_name(text: &str) -> Vec<String> {
    let _ = text;
    todo!("apimachinery")
}

pub fn is_port_number(port: i64) -> Vec<String> {
    let _ = port;
    todo!("apimachinery")
}

/// `prefix/name` as label and annotation keys, finalizers and taints are.
pub fn is_qualified_name(text: &str) -> Vec<String> {
    let _ = text;
    todo!("apimachinery")
}

pub fn is_label_value(text: &str) -> Vec<String> {
    let _ = text;
    todo!("apimachinery")
}

/// Keys of ConfigMaps and Secrets.
pub fn is_config_key(text: &str) -> Vec<String> {
    let _ = text;
    todo!("apimachinery")
}

pub fn is_env_var_name(text: &str) -> Vec<String> {
    let _ = text;
    todo!("apimachinery")
}

/// A valid IPv4 or IPv6 address.
pub fn is_ip(text: &str) -> Vec<String> {
    let _ = text;
    todo!("apimachinery")
}

pub fn check_label_selector(selector: &LabelSelector, path: &Path, errors: &mut FieldErrors) {
    let _ = (selector, path, errors);
    todo!("apimachinery")
}

pub fn check_labels(
    labels: &std::collections::BTreeMap<String, String>,
    path: &Path,
    errors: &mut FieldErrors,
) {
    let _ = (labels, path, errors);
    todo!("apimachinery")
}

/// Everything about metadata, for all kinds alike.
pub fn check_metadata(meta: &ObjectMeta, scope: Scope, rule: NameRule, errors: &mut FieldErrors) {
    let _ = (meta, scope, rule, errors);
    todo!("apimachinery")
}

/// What an update may not change in metadata.
pub fn check_metadata_update(meta: &ObjectMeta, stored: &ObjectMeta, errors: &mut FieldErrors) {
    let _ = (meta, stored, errors);
    todo!("apimachinery")
}
