//! StorageVersionMigration: a wish that all objects of a resource be stored anew, in the version
//! that they are stored in now.

#[cfg(test)]
mod tests;
mod validation;

use apimachinery::FieldErrors;
use apimachinery::table::Column;
use jiff::Timestamp;
use serde_json::Value;

use crate::cell;
use crate::kind::{Part, Resource};

pub use k8s_openapi::api::storagemigration::v1beta1::StorageVersionMigration;

/// Conditions that say how far it is.
const STATES: &[&str] = &["Running", "Failed", "Succeeded"];

impl Resource for StorageVersionMigration {
    codec!();
    spec_and_status_alone!();

    fn apply_defaults(&mut self) {
        self.spec.get_or_insert_default();
    }

    /// What is wrong depends on the part: see below.
    fn validate(&self, _errors: &mut FieldErrors) {}

    fn validate_create(&self, errors: &mut FieldErrors) {
        validation::validate(self, errors);
    }

    fn validate_update(&self, stored: &Self, part: Part, errors: &mut FieldErrors) {
        match part {
            Part::Status => validation::validate_status(self, stored, errors),
            Part::Main | Part::Other(_) => validation::validate_update(self, stored, errors),
        }
    }

    fn columns() -> &'static [Column] {
        const {
            &[
                Column::new("Name", "string"),
                Column::new("Resource", "string"),
                Column::new("Status", "string"),
            ]
        }
    }

    fn row(&self, _now: Timestamp) -> Vec<Value> {
        let conditions = self.status.as_ref().and_then(|it| it.conditions.as_ref());
        let mut holds = conditions.into_iter().flatten().filter(|it| it.status == "True");
        let state = holds.rfind(|it| STATES.contains(&it.type_.as_str()));
        let resource = self.spec.as_ref().map(|it| &it.resource);
        let resource = resource.map(|it| match it.group.as_str() {
            "" => it.resource.clone(),
            group => format!("{}.{group}", it.resource),
        });
        vec![
            cell::name(&self.metadata),
            Value::from(resource.unwrap_or_default()),
            Value::from(state.map_or("Unknown", |it| it.type_.as_str())),
        ]
    }
}
