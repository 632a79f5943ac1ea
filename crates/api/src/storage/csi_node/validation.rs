//! What is wrong with a CSINode.

use std::collections::BTreeSet;

use apimachinery::FieldErrors;
use apimachinery::field::Path;
use apimachinery::validation::is_qualified_name;
use k8s_openapi::api::storage::v1::CSINodeDriver;
use serde_json::json;

use super::CSINode;
use crate::check;

const NODE_ID_MAX: usize = 192;

pub(super) fn validate(node: &CSINode, errors: &mut FieldErrors) {
    let mut names = BTreeSet::new();
    for (index, driver) in node.spec.drivers.iter().enumerate() {
        let path = Path::new("spec").child("drivers").index(index);
        validate_driver(driver, &path, errors);
        if !names.insert(&driver.name) {
            errors.duplicate(&path.child("name"), driver.name.as_str());
        }
    }
}

fn validate_driver(driver: &CSINodeDriver, path: &Path, errors: &mut FieldErrors) {
    check::csi_driver_name(&driver.name, &path.child("name"), errors);
    if driver.node_id.is_empty() {
        errors.required(&path.child("nodeID"), "");
    }
    if driver.node_id.len() > NODE_ID_MAX {
        let detail = format!("must be {NODE_ID_MAX} characters or less");
        errors.invalid(&path.child("nodeID"), driver.node_id.as_str(), &detail);
    }
    if let Some(count) = driver.allocatable.as_ref().and_then(|it| it.count) {
        check::non_negative(count, &path.child("allocatable").child("count"), errors);
    }
    let mut keys = BTreeSet::new();
    for key in driver.topology_keys.iter().flatten() {
        if key.is_empty() {
            errors.required(path, "");
        }
        if !keys.insert(key) {
            errors.duplicate(path, key.as_str());
        }
        check::format(key, &is_qualified_name(key), path, errors);
    }
}

/// What a driver says of itself stays while it is there, but for how many volumes it takes.
pub(super) fn validate_update(node: &CSINode, stored: &CSINode, errors: &mut FieldErrors) {
    let settled = |it: &CSINodeDriver| CSINodeDriver { allocatable: None, ..it.clone() };
    for old in &stored.spec.drivers {
        for new in node.spec.drivers.iter().filter(|it| it.name == old.name) {
            let shown =
                json!({"name": new.name, "nodeID": new.node_id, "topologyKeys": new.topology_keys});
            let is_same = settled(new) == settled(old);
            check::immutable(is_same, shown, &Path::new("spec").child("drivers"), errors);
        }
    }
}
