//! StorageClass: a kind of storage that claims ask for by name.

#[cfg(test)]
mod tests;
mod validation;

use apimachinery::FieldErrors;
use apimachinery::field::Path;
use apimachinery::table::Column;
use jiff::Timestamp;
use serde_json::Value;

use crate::cell;
use crate::check::text;
use crate::core::node_labels;
use crate::kind::{Part, Resource};

pub use k8s_openapi::api::storage::v1::StorageClass;

/// Each of them makes a class the default; the second is the old one.
const IS_DEFAULT: [&str; 2] = [
    "storageclass.kubernetes.io/is-default-class",
    "storageclass.beta.kubernetes.io/is-default-class",
];

const DELETE: &str = "Delete";
const IMMEDIATE: &str = "Immediate";

impl Resource for StorageClass {
    codec!();

    fn apply_defaults(&mut self) {
        self.reclaim_policy.get_or_insert_with(|| DELETE.to_owned());
        self.volume_binding_mode.get_or_insert_with(|| IMMEDIATE.to_owned());
    }

    fn validate(&self, errors: &mut FieldErrors) {
        validation::validate(self, errors);
    }

    fn validate_update(&self, stored: &Self, _part: Part, errors: &mut FieldErrors) {
        validation::validate_update(self, stored, errors);
    }

    fn warnings(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        for (index, term) in self.allowed_topologies.iter().flatten().enumerate() {
            let path = Path::new("allowedTopologies").index(index).child("matchLabelExpressions");
            for (index, it) in term.match_label_expressions.iter().flatten().enumerate() {
                if let Some(why) = node_labels::deprecation(&it.key) {
                    warnings.push(format!("{}: {why}", path.index(index).child("key")));
                }
            }
        }
        warnings
    }

    fn columns() -> &'static [Column] {
        const {
            &[
                Column::name(),
                Column::new("Provisioner", "string"),
                Column::new("ReclaimPolicy", "string"),
                Column::new("VolumeBindingMode", "string"),
                Column::new("AllowVolumeExpansion", "string"),
                Column::new("Age", "string"),
            ]
        }
    }

    fn row(&self, now: Timestamp) -> Vec<Value> {
        let name = text(self.metadata.name.as_ref());
        let suffix = if is_default(self) { " (default)" } else { "" };
        vec![
            Value::from(format!("{name}{suffix}")),
            Value::from(self.provisioner.as_str()),
            Value::from(self.reclaim_policy.as_deref().unwrap_or(DELETE)),
            Value::from(self.volume_binding_mode.as_deref().unwrap_or(IMMEDIATE)),
            Value::from(self.allow_volume_expansion.unwrap_or(false)),
            cell::age(&self.metadata, now),
        ]
    }
}

/// Whether claims that ask for no class get this one.
pub fn is_default(class: &StorageClass) -> bool {
    let annotations = class.metadata.annotations.as_ref();
    let is_true =
        |key: &&str| annotations.and_then(|it| it.get(*key)).is_some_and(|it| it == "true");
    IS_DEFAULT.iter().any(is_true)
}
