//! What is wrong with a CSIStorageCapacity.

use apimachinery::FieldErrors;
use apimachinery::field::Path;
use apimachinery::validation::{is_dns_subdomain, validate_label_selector};

use super::CSIStorageCapacity;
use crate::{check, codec, quantities, semantic};

pub(super) fn validate(capacity: &CSIStorageCapacity, errors: &mut FieldErrors) {
    let class = &capacity.storage_class_name;
    check::format(class, &is_dns_subdomain(class), &Path::new("storageClassName"), errors);
    if let Some(amount) = &capacity.capacity {
        quantities::non_negative(amount, &Path::new("capacity"), errors);
    }
    if let Some(amount) = &capacity.maximum_volume_size {
        quantities::validate(amount, &Path::new("maximumVolumeSize"), errors);
    }
}

/// Of one that is new or changed: what was taken once may stay.
pub(super) fn validate_topology(capacity: &CSIStorageCapacity, errors: &mut FieldErrors) {
    if let Some(topology) = &capacity.node_topology {
        validate_label_selector(topology, &Path::new("nodeTopology"), errors);
    }
}

/// What the driver was asked about stays.
pub(super) fn validate_update(
    capacity: &CSIStorageCapacity,
    stored: &CSIStorageCapacity,
    errors: &mut FieldErrors,
) {
    let is_same = semantic::equal(&capacity.node_topology, &stored.node_topology);
    if !is_same {
        validate_topology(capacity, errors);
    }
    let shown = codec::tree(&capacity.node_topology);
    check::immutable(is_same, shown, &Path::new("nodeTopology"), errors);
    let class = capacity.storage_class_name.as_str();
    let is_same = class == stored.storage_class_name;
    check::immutable(is_same, class, &Path::new("storageClassName"), errors);
}
