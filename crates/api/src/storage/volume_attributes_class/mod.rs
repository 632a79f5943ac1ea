//! VolumeAttributesClass: attributes of volumes that can be changed later, by name.

#[cfg(test)]
mod tests;
pub mod v1beta1;

use apimachinery::FieldErrors;
use apimachinery::field::Path;
use apimachinery::table::Column;
use jiff::Timestamp;
use serde_json::Value;

use super::parameters;
use crate::cell;
use crate::kind::{Part, Resource};
use crate::{semantic, version};

pub use k8s_openapi::api::storage::v1::VolumeAttributesClass;

impl Resource for VolumeAttributesClass {
    codec!();

    fn convert_stored(
        api_version: &str,
        json: &[u8],
    ) -> Option<Result<Vec<u8>, serde_json::Error>> {
        let is_known = api_version == "storage.k8s.io/v1beta1";
        is_known.then(|| version::convert_stored::<v1beta1::VolumeAttributesClass, Self>(json))
    }

    fn validate(&self, errors: &mut FieldErrors) {
        parameters::validate_driver(&self.driver_name, &Path::new("driverName"), errors);
        let path = Path::new("parameters");
        parameters::validate(self.parameters.as_ref(), &path, errors);
        if self.parameters.as_ref().is_none_or(|it| it.is_empty()) {
            errors.required(&path, "must contain at least one key/value pair");
        }
    }

    fn validate_update(&self, stored: &Self, _part: Part, errors: &mut FieldErrors) {
        if self.driver_name != stored.driver_name {
            errors.forbidden(&Path::new("driverName"), "updates to driverName are forbidden.");
        }
        if !semantic::equal(&self.parameters, &stored.parameters) {
            errors.forbidden(&Path::new("parameters"), "updates to parameters are forbidden.");
        }
    }

    fn columns() -> &'static [Column] {
        const { &[Column::name(), Column::new("DriverName", "string"), Column::new("Age", "string")] }
    }

    fn row(&self, now: Timestamp) -> Vec<Value> {
        vec![
            cell::name(&self.metadata),
            Value::from(self.driver_name.as_str()),
            cell::age(&self.metadata, now),
        ]
    }
}
