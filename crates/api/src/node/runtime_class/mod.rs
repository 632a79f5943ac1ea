//! RuntimeClass: a way to run pods, what it costs beside their containers, and where it is.

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

pub use k8s_openapi::api::node::v1::RuntimeClass;

impl Resource for RuntimeClass {
    codec!();

    fn validate(&self, errors: &mut FieldErrors) {
        validation::validate(self, errors);
    }

    fn validate_update(&self, stored: &Self, _part: Part, errors: &mut FieldErrors) {
        validation::validate_update(self, stored, errors);
    }

    fn warnings(&self) -> Vec<String> {
        let selector = self.scheduling.as_ref().and_then(|it| it.node_selector.as_ref());
        let path = Path::new("scheduling").child("nodeSelector");
        let keys = selector.into_iter().flatten().map(|(key, _)| key);
        keys.filter_map(|it| node_labels::deprecation(it))
            .map(|it| format!("{path}: {it}"))
            .collect()
    }

    fn columns() -> &'static [Column] {
        const { &[Column::name(), Column::new("Handler", "string"), Column::new("Age", "string")] }
    }

    fn row(&self, now: Timestamp) -> Vec<Value> {
        vec![
            cell::name(&self.metadata),
            Value::from(self.handler.as_str()),
            cell::age(&self.metadata, now),
        ]
    }
}
