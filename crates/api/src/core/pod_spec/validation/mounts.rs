//! Where a container has its volumes: as directories, and as devices.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::{Container, PodSpec, VolumeDevice, VolumeMount};

use apimachinery::FieldErrors;
use apimachinery::field::Path;

use super::security;
use crate::check::text;
use crate::core::volume_sources::relative;

/// Volumes by name: whether each may be a device.
pub(super) type Volumes = BTreeMap<String, bool>;

/// Those of a pod.
pub(super) fn volumes(spec: &PodSpec) -> Volumes {
    let volumes = spec.volumes.iter().flatten();
    let is_claim = |it: &k8s_openapi::api::core::v1::Volume| {
        it.persistent_volume_claim.is_some() || it.ephemeral.is_some()
    };
    volumes.map(|it| (it.name.clone(), is_claim(it))).collect()
}

pub(super) fn validate(
    container: &Container,
    volumes: &Volumes,
    path: &Path,
    errors: &mut FieldErrors,
) {
    let mounts = container.volume_mounts.as_deref().unwrap_or_default();
    let devices = container.volume_devices.as_deref().unwrap_or_default();
    let mut targets = BTreeSet::new();
    let path_mounts = path.child("volumeMounts");
    for (index, mount) in mounts.iter().enumerate() {
        let path = path_mounts.index(index);
        if mount.name.is_empty() {
            errors.required(&path.child("name"), "");
        }
        if !volumes.contains_key(&mount.name) {
            errors.not_found(&path.child("name"), mount.name.as_str());
        }
        if mount.mount_path.is_empty() {
            errors.required(&path.child("mountPath"), "");
        }
        let target = mount.mount_path.as_str();
        if !targets.insert(target) {
            errors.invalid(&path.child("mountPath"), target, "must be unique");
        }
        if devices.iter().any(|it| it.name == mount.name) {
            let detail = "must not already exist in volumeDevices";
            errors.invalid(&path.child("name"), mount.name.as_str(), detail);
        }
        if devices.iter().any(|it| it.device_path == target) {
            let detail = "must not already exist as a path in volumeDevices";
            errors.invalid(&path.child("mountPath"), target, detail);
        }
        validate_sub_path(mount, &path, &path_mounts, errors);
        // As upstream names them: of the list, not of the mount.
        security::validate_propagation(mount, container, &path_mounts, errors);
    }
    validate_devices(devices, mounts, volumes, &path.child("volumeDevices"), errors);
}

fn validate_sub_path(mount: &VolumeMount, path: &Path, list: &Path, errors: &mut FieldErrors) {
    let sub_path = text(mount.sub_path.as_ref());
    let sub_path_expr = text(mount.sub_path_expr.as_ref());
    if !sub_path.is_empty() {
        relative(sub_path, &list.child("subPath"), errors);
    }
    if !sub_path_expr.is_empty() {
        if !sub_path.is_empty() {
            let detail = "subPathExpr and subPath are mutually exclusive";
            errors.invalid(&path.child("subPathExpr"), sub_path_expr, detail);
        }
        relative(sub_path_expr, &list.child("subPathExpr"), errors);
    }
}

fn validate_devices(
    devices: &[VolumeDevice],
    mounts: &[VolumeMount],
    volumes: &Volumes,
    path: &Path,
    errors: &mut FieldErrors,
) {
    let (mut names, mut targets) = (BTreeSet::new(), BTreeSet::new());
    for (index, device) in devices.iter().enumerate() {
        let (path_name, path_device) =
            (path.index(index).child("name"), path.index(index).child("devicePath"));
        let (name, target) = (device.name.as_str(), device.device_path.as_str());
        if name.is_empty() {
            errors.required(&path_name, "");
        }
        if names.contains(name) {
            errors.invalid(&path_name, name, "must be unique");
        }
        match volumes.get(name) {
            Some(true) => {}
            Some(false) => errors.invalid(
                &path_name,
                name,
                "can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode",
            ),
            None => errors.not_found(&path_name, name),
        }
        if target.is_empty() {
            errors.required(&path_device, "");
        }
        if targets.contains(target) {
            errors.invalid(&path_device, target, "must be unique");
        }
        if target.split('/').any(|it| it == "..") {
            errors.invalid(&path_device, target, "can not contain backsteps ('..')");
        } else {
            targets.insert(target);
        }
        if mounts.iter().any(|it| it.name == name) {
            errors.invalid(&path_name, name, "must not already exist in volumeMounts");
        }
        if mounts.iter().any(|it| it.mount_path == target) {
            let detail = "must not already exist as a path in volumeMounts";
            errors.invalid(&path_device, target, detail);
        }
        if !name.is_empty() {
            names.insert(name);
        }
    }
}
