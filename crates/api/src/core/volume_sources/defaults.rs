//! Values of sources that nothing here mounts: whoever reads the object counts on them.

use k8s_openapi::api::core::v1::{AzureDiskVolumeSource, HostPathVolumeSource};

pub(crate) fn fill(field: &mut Option<String>, value: &str) {
    if field.as_deref().unwrap_or_default().is_empty() {
        *field = Some(value.to_owned());
    }
}

pub(crate) fn host_path(source: &mut HostPathVolumeSource) {
    source.type_.get_or_insert_default();
}

pub(crate) fn iscsi(interface: &mut Option<String>) {
    fill(interface, "default");
}

pub(crate) fn rbd(
    pool: &mut Option<String>,
    user: &mut Option<String>,
    keyring: &mut Option<String>,
) {
    fill(pool, "rbd");
    fill(user, "admin");
    fill(keyring, "/etc/ceph/keyring");
}

/// An empty text is a value here.
pub(crate) fn azure_disk(disk: &mut AzureDiskVolumeSource) {
    disk.caching_mode.get_or_insert_with(|| "ReadWrite".to_owned());
    disk.kind.get_or_insert_with(|| "Shared".to_owned());
    disk.fs_type.get_or_insert_with(|| "ext4".to_owned());
    disk.read_only.get_or_insert(false);
}

pub(crate) fn scale_io(storage_mode: &mut Option<String>, fs_type: &mut Option<String>) {
    fill(storage_mode, "ThinProvisioned");
    fill(fs_type, "xfs");
}
