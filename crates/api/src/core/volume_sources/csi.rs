//! Volumes of drivers that are no part of Kubernetes: CSI, and FlexVolume before it.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{CSIPersistentVolumeSource, CSIVolumeSource, SecretReference};

use apimachinery::FieldErrors;
use apimachinery::field::Path;
use apimachinery::validation::{is_dns_label, is_dns_subdomain};

use crate::check::{self, text};

/// In a pod.
pub(crate) fn of_pod(source: &CSIVolumeSource, path: &Path, errors: &mut FieldErrors) {
    check::csi_driver_name(&source.driver, &path.child("driver"), errors);
    let Some(secret) = &source.node_publish_secret_ref else { return };
    if secret.name.is_empty() {
        errors.required(&path.child("nodePublishSecretRef").child("name"), "");
    } else {
        // Upstream names this path; clients may match it.
        let messages = is_dns_subdomain(&secret.name);
        check::format(&secret.name, &messages, &path.child("name"), errors);
    }
}

/// In a persistent volume. The secret for staging is not looked at, as upstream.
pub(crate) fn of_volume(source: &CSIPersistentVolumeSource, path: &Path, errors: &mut FieldErrors) {
    check::csi_driver_name(&source.driver, &path.child("driver"), errors);
    if source.volume_handle.is_empty() {
        errors.required(&path.child("volumeHandle"), "");
    }
    for (field, secret) in [
        ("controllerPublishSecretRef", &source.controller_publish_secret_ref),
        ("controllerExpandSecretRef", &source.controller_expand_secret_ref),
        ("nodePublishSecretRef", &source.node_publish_secret_ref),
        ("nodeExpandSecretRef", &source.node_expand_secret_ref),
    ] {
        if let Some(secret) = secret {
            validate_secret(secret, &path.child(field), errors);
        }
    }
}

fn validate_secret(secret: &SecretReference, path: &Path, errors: &mut FieldErrors) {
    let (name, namespace) = (text(secret.name.as_ref()), text(secret.namespace.as_ref()));
    for (field, value, is_valid) in [
        ("name", name, is_dns_subdomain as fn(&str) -> Vec<String>),
        ("namespace", namespace, is_dns_label),
    ] {
        let path = path.child(field);
        if value.is_empty() {
            errors.required(&path, "");
        } else {
            check::format(value, &is_valid(value), &path, errors);
        }
    }
}

pub(crate) fn flex(
    driver: &str,
    options: Option<&BTreeMap<String, String>>,
    path: &Path,
    errors: &mut FieldErrors,
) {
    if driver.is_empty() {
        errors.required(&path.child("driver"), "");
    }
    for key in options.into_iter().flat_map(|it| it.keys()) {
        let namespace = key.split_once('/').map_or(key.as_str(), |it| it.0).to_lowercase();
        let is_of = |domain: &str| format!(".{namespace}").ends_with(domain);
        if is_of(".kubernetes.io") || is_of(".k8s.io") {
            let detail = "kubernetes.io and k8s.io namespaces are reserved";
            errors.invalid(&path.child("options").key(key), key.as_str(), detail);
        }
    }
}
