//! CSINode: which CSI drivers a node has. Upstream's kubelet makes one of its own name when it
//! starts, and ends if it cannot.

#[cfg(test)]
mod tests;
mod validation;

use apimachinery::FieldErrors;
use apimachinery::table::Column;
use jiff::Timestamp;
use serde_json::Value;

use crate::cell;
use crate::kind::{Part, Resource};

pub use k8s_openapi::api::storage::v1::CSINode;

impl Resource for CSINode {
    codec!();

    fn validate(&self, errors: &mut FieldErrors) {
        validation::validate(self, errors);
    }

    fn validate_update(&self, stored: &Self, _part: Part, errors: &mut FieldErrors) {
        validation::validate_update(self, stored, errors);
    }

    fn columns() -> &'static [Column] {
        const { &[Column::name(), Column::new("Drivers", "integer"), Column::new("Age", "string")] }
    }

    fn row(&self, now: Timestamp) -> Vec<Value> {
        vec![
            cell::name(&self.metadata),
            Value::from(self.spec.drivers.len()),
            cell::age(&self.metadata, now),
        ]
    }
}
