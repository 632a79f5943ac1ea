//! File systems and disks of servers on the network.

use k8s_openapi::api::core::v1::{FlockerVolumeSource, NFSVolumeSource, QuobyteVolumeSource};

use apimachinery::FieldErrors;
use apimachinery::field::Path;
use apimachinery::validation::is_dns_label;

use super::required;
use crate::check::{self, text};

pub(crate) fn nfs(source: &NFSVolumeSource, path: &Path, errors: &mut FieldErrors) {
    required(&[("server", &source.server), ("path", &source.path)], path, errors);
    if !source.path.starts_with('/') {
        errors.invalid(&path.child("path"), source.path.as_str(), "must be an absolute path");
    }
}

pub(crate) fn quobyte(source: &QuobyteVolumeSource, path: &Path, errors: &mut FieldErrors) {
    const TENANT_MAX: usize = 64;
    const PAIRS: &str = "must be a host:port pair or multiple pairs separated by commas";
    if source.registry.is_empty() {
        errors.required(&path.child("registry"), PAIRS);
    } else if text(source.tenant.as_ref()).len() > TENANT_MAX {
        let detail = "must be a UUID and may not exceed a length of 64 characters";
        errors.required(&path.child("tenant"), detail);
    } else {
        for _ in source.registry.split(',').filter(|it| !is_host_and_port(it)) {
            errors.invalid(&path.child("registry"), source.registry.as_str(), PAIRS);
        }
    }
    required(&[("volume", &source.volume)], path, errors);
}

/// `host:port` or `[address]:port`; either may be empty.
fn is_host_and_port(text: &str) -> bool {
    let Some((host, port)) = text.rsplit_once(':') else { return false };
    let has_brackets = |it: &str| it.contains(['[', ']']);
    match host.strip_prefix('[').and_then(|it| it.strip_suffix(']')) {
        Some(address) => !has_brackets(address) && !has_brackets(port),
        None => !host.contains(':') && !has_brackets(host) && !has_brackets(port),
    }
}

pub(crate) fn flocker(source: &FlockerVolumeSource, path: &Path, errors: &mut FieldErrors) {
    let (name, uuid) = (text(source.dataset_name.as_ref()), text(source.dataset_uuid.as_ref()));
    match (name.is_empty(), uuid.is_empty()) {
        (true, true) => errors.required(path, "one of datasetName and datasetUUID is required"),
        (false, false) => {
            let detail = "datasetName and datasetUUID can not be specified simultaneously";
            errors.invalid(path, "resource", detail);
        }
        _ => {}
    }
    if name.contains('/') {
        errors.invalid(&path.child("datasetName"), name, "must not contain '/'");
    }
}

pub(crate) fn rbd(monitors: &[String], image: &str, path: &Path, errors: &mut FieldErrors) {
    ceph_fs(monitors, path, errors);
    required(&[("image", image)], path, errors);
}

pub(crate) fn ceph_fs(monitors: &[String], path: &Path, errors: &mut FieldErrors) {
    if monitors.is_empty() {
        errors.required(&path.child("monitors"), "");
    }
}

pub(crate) fn glusterfs(endpoints: &str, target: &str, path: &Path, errors: &mut FieldErrors) {
    required(&[("endpoints", endpoints), ("path", target)], path, errors);
}

pub(crate) fn azure_file(secret: &str, share: &str, path: &Path, errors: &mut FieldErrors) {
    required(&[("secretName", secret), ("shareName", share)], path, errors);
}

pub(crate) fn scale_io(
    gateway: &str,
    system: &str,
    volume: Option<&String>,
    path: &Path,
    errors: &mut FieldErrors,
) {
    let texts = [("gateway", gateway), ("system", system), ("volumeName", text(volume))];
    required(&texts, path, errors);
}

pub(crate) fn storage_os(
    volume: Option<&String>,
    namespace: Option<&String>,
    path: &Path,
    errors: &mut FieldErrors,
) {
    let (volume, namespace) = (text(volume), text(namespace));
    if volume.is_empty() {
        errors.required(&path.child("volumeName"), "");
    } else {
        check::format(volume, &is_dns_label(volume), &path.child("volumeName"), errors);
    }
    if !namespace.is_empty() {
        check::format(namespace, &is_dns_label(namespace), &path.child("volumeNamespace"), errors);
    }
}
