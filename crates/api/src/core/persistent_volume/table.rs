//! Columns of `get`.

use apimachinery::table::Column;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{PersistentVolumeSpec, PersistentVolumeStatus};
use serde_json::Value;

use super::{PersistentVolume, class_of, shown_modes};
use crate::cell;
use crate::check::text;
use crate::quantities;

pub(super) const COLUMNS: &[Column] = &[
    Column::name(),
    Column::new("Capacity", "string"),
    Column::new("Access Modes", "string"),
    Column::new("Reclaim Policy", "string"),
    Column::new("Status", "string"),
    Column::new("Claim", "string"),
    Column::new("StorageClass", "string"),
    Column::new("VolumeAttributesClass", "string"),
    Column::new("Reason", "string"),
    Column::new("Age", "string"),
    Column::new("VolumeMode", "string").wide(),
];

pub(super) fn row(volume: &PersistentVolume, now: Timestamp) -> Vec<Value> {
    let (no_spec, no_status) = (PersistentVolumeSpec::default(), PersistentVolumeStatus::default());
    let spec = volume.spec.as_ref().unwrap_or(&no_spec);
    let status = volume.status.as_ref().unwrap_or(&no_status);
    let is_going = volume.metadata.deletion_timestamp.is_some();
    let claim = spec.claim_ref.as_ref();
    let claim = claim.map(|it| {
        let (namespace, name) = (text(it.namespace.as_ref()), text(it.name.as_ref()));
        format!("{namespace}/{name}")
    });
    vec![
        cell::name(&volume.metadata),
        Value::from(quantities::shown(quantities::of(spec.capacity.as_ref(), "storage"))),
        Value::from(shown_modes(spec.access_modes.as_ref())),
        Value::from(text(spec.persistent_volume_reclaim_policy.as_ref())),
        Value::from(if is_going { "Terminating" } else { text(status.phase.as_ref()) }),
        Value::from(claim.unwrap_or_default()),
        Value::from(class_of(volume)),
        Value::from(spec.volume_attributes_class_name.as_deref().unwrap_or("<unset>")),
        Value::from(text(status.reason.as_ref())),
        cell::age(&volume.metadata, now),
        Value::from(spec.volume_mode.as_deref().unwrap_or("<unset>")),
    ]
}
