//! Values that the server fills in.

use k8s_openapi::api::core::v1::PersistentVolumeSpec;

use super::PersistentVolume;
use crate::core::volume_sources::defaults::{self as sources, fill};
use crate::quantities::round_up;

pub(super) fn apply(volume: &mut PersistentVolume) {
    fill(&mut volume.status.get_or_insert_default().phase, "Pending");
    let spec = volume.spec.get_or_insert_default();
    fill(&mut spec.persistent_volume_reclaim_policy, "Retain");
    spec.volume_mode.get_or_insert_with(|| "Filesystem".to_owned());
    apply_to_spec(spec);
}

/// Also of volumes that stand in an attachment.
pub(crate) fn apply_to_spec(spec: &mut PersistentVolumeSpec) {
    if let Some(capacity) = &mut spec.capacity {
        round_up(capacity);
    }
    if let Some(it) = &mut spec.host_path {
        sources::host_path(it);
    }
    if let Some(it) = &mut spec.rbd {
        sources::rbd(&mut it.pool, &mut it.user, &mut it.keyring);
    }
    if let Some(it) = &mut spec.iscsi {
        sources::iscsi(&mut it.iscsi_interface);
    }
    if let Some(it) = &mut spec.azure_disk {
        sources::azure_disk(it);
    }
    if let Some(it) = &mut spec.scale_io {
        sources::scale_io(&mut it.storage_mode, &mut it.fs_type);
    }
}
