//! CSIStorageCapacity: how much a driver can still give, of one class, to some nodes.

#[cfg(test)]
mod tests;
mod validation;

use apimachinery::FieldErrors;
use apimachinery::field::Path;
use apimachinery::table::Column;
use jiff::Timestamp;
use serde_json::Value;

use crate::cell;
use crate::core::node_labels;
use crate::kind::{Part, Resource};
use crate::quantities;

pub use k8s_openapi::api::storage::v1::CSIStorageCapacity;

impl Resource for CSIStorageCapacity {
    codec!();

    fn apply_defaults(&mut self) {
        let amounts = [&mut self.capacity, &mut self.maximum_volume_size];
        amounts.into_iter().flatten().for_each(quantities::canonicalize);
    }

    fn validate(&self, errors: &mut FieldErrors) {
        validation::validate(self, errors);
    }

    fn validate_create(&self, errors: &mut FieldErrors) {
        validation::validate_topology(self, errors);
    }

    fn validate_update(&self, stored: &Self, _part: Part, errors: &mut FieldErrors) {
        validation::validate_update(self, stored, errors);
    }

    fn warnings(&self) -> Vec<String> {
        let topology = self.node_topology.as_ref();
        let path = Path::new("nodeTopology");
        topology.map(|it| node_labels::warnings_of_selector(it, &path)).unwrap_or_default()
    }

    fn columns() -> &'static [Column] {
        const {
            &[
                Column::name(),
                Column::new("StorageClassName", "string"),
                Column::new("Capacity", "string"),
            ]
        }
    }

    fn row(&self, _now: Timestamp) -> Vec<Value> {
        vec![
            cell::name(&self.metadata),
            Value::from(self.storage_class_name.as_str()),
            Value::from(self.capacity.as_ref().map_or("<unset>", |it| it.0.as_str())),
        ]
    }
}
