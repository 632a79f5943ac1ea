//! ConfigMap: named texts and bytes.

#[cfg(test)]
mod tests;
mod validation;

use apimachinery::FieldErrors;

use crate::kind::Resource;

use apimachinery::table::Column;
use jiff::Timestamp;
use serde_json::Value;

use crate::cell;
use crate::kind::Part;

pub use k8s_openapi::api::core::v1::ConfigMap;

impl Resource for ConfigMap {
    codec!();

    fn validate(&self, errors: &mut FieldErrors) {
        validation::validate(self, errors);
    }

    fn validate_update(&self, stored: &Self, _part: Part, errors: &mut FieldErrors) {
        validation::validate_update(self, stored, errors);
    }

    fn columns() -> &'static [Column] {
        const { &[Column::name(), Column::new("Data", "string"), Column::new("Age", "string")] }
    }

    fn row(&self, now: Timestamp) -> Vec<Value> {
        let n_texts = self.data.as_ref().map_or(0, |it| it.len());
        let n_binaries = self.binary_data.as_ref().map_or(0, |it| it.len());
        vec![
            cell::name(&self.metadata),
            Value::from(n_texts + n_binaries),
            cell::age(&self.metadata, now),
        ]
    }
}
