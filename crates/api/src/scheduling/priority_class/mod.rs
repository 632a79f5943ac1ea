//! PriorityClass: a name for how important pods are.

#[cfg(test)]
mod tests;
mod validation;

use apimachinery::FieldErrors;
use apimachinery::table::Column;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::Value;

use crate::cell;
use crate::check::text;
use crate::kind::{Part, Resource};

pub use k8s_openapi::api::scheduling::v1::PriorityClass;

/// What users may give; more is for the classes of the system.
pub const USER_VALUE_MAX: i32 = 1_000_000_000;
/// Of names that are the system's.
pub const SYSTEM_PREFIX: &str = "system-";
const DESCRIPTION: &str = "For pods that the cluster itself needs.";
/// The classes that every cluster has, with their values. They cannot be deleted.
pub const SYSTEM: [(&str, i32); 2] =
    [("system-node-critical", 2_000_001_000), ("system-cluster-critical", 2_000_000_000)];

/// The classes of the system as objects.
pub fn of_system() -> impl Iterator<Item = PriorityClass> {
    SYSTEM.into_iter().map(|(name, value)| {
        let mut class = PriorityClass {
            metadata: ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() },
            value: Some(value),
            description: Some(DESCRIPTION.to_owned()),
            ..PriorityClass::default()
        };
        class.metadata.generation = Some(1);
        class.apply_defaults();
        class
    })
}

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
