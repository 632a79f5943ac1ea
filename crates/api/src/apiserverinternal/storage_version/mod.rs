//! StorageVersion: in which versions the servers of a cluster store a resource and can read it.

mod agreement;
#[cfg(test)]
mod tests;
mod validation;

use apimachinery::FieldErrors;
use apimachinery::table::Column;
use jiff::Timestamp;
use k8s_openapi::api::apiserverinternal::v1alpha1::StorageVersionSpec;
use serde_json::{Value, json};

use crate::cell;
use crate::kind::{Part, Resource};

pub use self::agreement::agree;
pub use k8s_openapi::api::apiserverinternal::v1alpha1::StorageVersion;

impl Resource for StorageVersion {
    codec!();
    spec_and_status_alone!();

    /// A spec is there, and has nothing in it.
    fn apply_defaults(&mut self) {
        // It has no fields.
        self.spec = Some(StorageVersionSpec(json!({})));
    }

    /// What is wrong depends on the part: see below.
    fn validate(&self, _errors: &mut FieldErrors) {}

    fn validate_create(&self, errors: &mut FieldErrors) {
        validation::validate_name(self, errors);
    }

    fn validate_update(&self, _stored: &Self, part: Part, errors: &mut FieldErrors) {
        if part == Part::Status {
            validation::validate_status(self, errors);
        }
    }

    fn columns() -> &'static [Column] {
        const {
            &[
                Column::name(),
                Column::new("CommonEncodingVersion", "string"),
                Column::new("StorageVersions", "string"),
                Column::new("Age", "string"),
            ]
        }
    }

    fn row(&self, now: Timestamp) -> Vec<Value> {
        let status = self.status.as_ref();
        let common = status.and_then(|it| it.common_encoding_version.as_deref());
        let servers = status.and_then(|it| it.storage_versions.as_deref()).unwrap_or_default();
        let servers: Vec<String> = servers
            .iter()
            .map(|it| format!("{}={}", it.api_server_id, it.encoding_version))
            .collect();
        vec![
            cell::name(&self.metadata),
            Value::from(common.unwrap_or("<unset>")),
            Value::from(cell::first_three(&servers)),
            cell::age(&self.metadata, now),
        ]
    }
}
