//! Disks and shares of clouds and of their software.

use k8s_openapi::api::core::v1::{
    AWSElasticBlockStoreVolumeSource, AzureDiskVolumeSource, GCEPersistentDiskVolumeSource,
    PhotonPersistentDiskVolumeSource, PortworxVolumeSource, VsphereVirtualDiskVolumeSource,
};

use apimachinery::FieldErrors;
use apimachinery::field::Path;

use super::required;

const CACHING_MODES: &[&str] = &["None", "ReadOnly", "ReadWrite"];
const DISK_KINDS: &[&str] = &["Dedicated", "Managed", "Shared"];
const URI_MANAGED: &str = "/subscriptions/{sub-id}/resourcegroups/{group-name}/providers/microsoft.compute/disks/{disk-id}";
const URI_BLOB: &str =
    "https://{account-name}.blob.core.windows.net/{container-name}/{disk-name}.vhd";

pub(crate) fn gce_disk(
    disk: &GCEPersistentDiskVolumeSource,
    path: &Path,
    errors: &mut FieldErrors,
) {
    required(&[("pdName", &disk.pd_name)], path, errors);
    validate_partition(disk.partition, path, errors);
}

pub(crate) fn aws_disk(
    disk: &AWSElasticBlockStoreVolumeSource,
    path: &Path,
    errors: &mut FieldErrors,
) {
    required(&[("volumeID", &disk.volume_id)], path, errors);
    validate_partition(disk.partition, path, errors);
}

/// Zero is the whole disk, though the text knows nothing of it.
fn validate_partition(partition: Option<i32>, path: &Path, errors: &mut FieldErrors) {
    if let Some(partition) = partition.filter(|it| !(0..=255).contains(it)) {
        errors.invalid(&path.child("partition"), partition, "must be between 1 and 255, inclusive");
    }
}

pub(crate) fn azure_disk(disk: &AzureDiskVolumeSource, path: &Path, errors: &mut FieldErrors) {
    required(&[("diskName", &disk.disk_name), ("diskURI", &disk.disk_uri)], path, errors);
    for (field, value, supported) in
        [("cachingMode", &disk.caching_mode, CACHING_MODES), ("kind", &disk.kind, DISK_KINDS)]
    {
        if let Some(value) = value.as_deref().filter(|it| !supported.contains(it)) {
            errors.not_supported(&path.child(field), value, supported);
        }
    }
    let (prefix, form) = match disk.kind.as_deref() {
        None => return,
        Some("Managed") => ("/subscriptions/", URI_MANAGED),
        Some(_) => ("https://", URI_BLOB),
    };
    if !disk.disk_uri.starts_with(prefix) {
        errors.not_supported(&path.child("diskURI"), disk.disk_uri.as_str(), &[form]);
    }
}

pub(crate) fn vsphere(
    disk: &VsphereVirtualDiskVolumeSource,
    path: &Path,
    errors: &mut FieldErrors,
) {
    required(&[("volumePath", &disk.volume_path)], path, errors);
}

pub(crate) fn photon(
    disk: &PhotonPersistentDiskVolumeSource,
    path: &Path,
    errors: &mut FieldErrors,
) {
    required(&[("pdID", &disk.pd_id)], path, errors);
}

pub(crate) fn portworx(source: &PortworxVolumeSource, path: &Path, errors: &mut FieldErrors) {
    required(&[("volumeID", &source.volume_id)], path, errors);
}
