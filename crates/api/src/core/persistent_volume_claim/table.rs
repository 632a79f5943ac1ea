//! Columns of `get`.

use apimachinery::table::Column;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{PersistentVolumeClaimSpec, PersistentVolumeClaimStatus};
use serde_json::Value;

use super::{PersistentVolumeClaim, class_of};
use crate::cell;
use crate::check::text;
use crate::core::persistent_volume::shown_modes;
use crate::quantities;

pub(super) const COLUMNS: &[Column] = &[
    Column::name(),
    Column::new("Status", "string"),
    Column::new("Volume", "string"),
    Column::new("Capacity", "string"),
    Column::new("Access Modes", "string"),
    Column::new("StorageClass", "string"),
    Column::new("VolumeAttributesClass", "string"),
    Column::new("Age", "string"),
    Column::new("VolumeMode", "string").wide(),
];

pub(super) fn row(claim: &PersistentVolumeClaim, now: Timestamp) -> Vec<Value> {
    let (no_spec, no_status) =
        (PersistentVolumeClaimSpec::default(), PersistentVolumeClaimStatus::default());
    let spec = claim.spec.as_ref().unwrap_or(&no_spec);
    let status = claim.status.as_ref().unwrap_or(&no_status);
    let is_going = claim.metadata.deletion_timestamp.is_some();
    let volume = text(spec.volume_name.as_ref());
    // What there is, not what was asked for.
    let (capacity, modes) = match volume {
        "" => ("", String::new()),
        _ => {
            let capacity = quantities::of(status.capacity.as_ref(), "storage");
            (quantities::shown(capacity), shown_modes(status.access_modes.as_ref()))
        }
    };
    vec![
        cell::name(&claim.metadata),
        Value::from(if is_going { "Terminating" } else { text(status.phase.as_ref()) }),
        Value::from(volume),
        Value::from(capacity),
        Value::from(modes),
        Value::from(class_of(claim)),
        Value::from(spec.volume_attributes_class_name.as_deref().unwrap_or("<unset>")),
        cell::age(&claim.metadata, now),
        Value::from(spec.volume_mode.as_deref().unwrap_or("<unset>")),
    ]
}
