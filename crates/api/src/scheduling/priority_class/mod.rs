//! PriorityClass: a name for how important pods are.

#[cfg(test)]
mod tests;
mod validation;

use apimachinery::FieldErrors;
use apimachinery::table::Column;
use jiff::Timestamp;
use serde_json::Value;

use crate::cell;
use crate::check::text;
use crate::kind::{Part, Resource};

pub use k8s_openapi::api::scheduling::v1::PriorityClass;

/// What users may give; more is for the classes of the system.
pub const USER_VALUE_MAX: i32 = 1_000_000_000;
/// Of names that are the system's.
pub const SYSTEM_PREFIX: &str = "system-";
/// The classes that every cluster has, with their values. They cannot be deleted.
pub const SYSTEM: [(&str, i32); 2] =
    [("system-node-critical", 2_000_001_000), ("system-cluster-critical", 2_000_000_000)];

impl Resource for PriorityClass {
    codec!();

    fn apply_defaults(&mut self) {
        self.value.get_or_insert(0);
        self.preemption_policy.get_or_insert_with(|| "PreemptLowerPriority".to_owned());
    }

    /// What is checked on create cannot change.
    fn validate(&self, _errors: &mut FieldErrors) {}

    fn validate_create(&self, errors: &mut FieldErrors) {
        validation::validate(self, errors);
    }

    fn validate_update(&self, stored: &Self, _part: Part, errors: &mut FieldErrors) {
        validation::validate_update(self, stored, errors);
    }

    /// Whoever makes one believes that pods can have it.
    fn warnings(&self) -> Vec<String> {
        let name = text(self.metadata.name.as_ref());
        if SYSTEM.iter().any(|it| it.0 == name) {
            return Vec::new();
        }
        let warning =
            "value: accepted, but pods can have only the classes of the system on this server";
        vec![warning.to_owned()]
    }

    fn columns() -> &'static [Column] {
        const {
            &[
                Column::name(),
                Column::new("Value", "integer"),
                Column::new("Global-Default", "boolean"),
                Column::new("Age", "string"),
                Column::new("PreemptionPolicy", "string"),
            ]
        }
    }

    fn row(&self, now: Timestamp) -> Vec<Value> {
        vec![
            cell::name(&self.metadata),
            Value::from(self.value.unwrap_or(0)),
            Value::from(self.global_default.unwrap_or(false)),
            cell::age(&self.metadata, now),
            Value::from(text(self.preemption_policy.as_ref())),
        ]
    }
}
