//! ResourceSlice: devices that a driver has, on one node, on some, or on all.

mod attributes;
mod capacity;
mod devices;
mod gates;
#[cfg(test)]
mod tests;
pub mod v1beta1;
pub mod v1beta2;
mod validation;

use apimachinery::FieldErrors;
use apimachinery::quantity::Amount;
use apimachinery::table::Column;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::Value;

use crate::check::text;
use crate::kind::{Part, Resource};
use crate::{cell, semantic, version};

pub use k8s_openapi::api::resource::v1::ResourceSlice;

/// Taints that do not say since when they are there are there from now on.
pub fn set_taint_times(slice: &mut ResourceSlice, now: &Time) {
    let devices = slice.spec.devices.iter_mut().flatten();
    for taint in devices.flat_map(|it| it.taints.iter_mut().flatten()) {
        taint.time_added.get_or_insert_with(|| now.clone());
    }
}

pub fn lacks_taint_times(slice: &ResourceSlice) -> bool {
    let devices = slice.spec.devices.iter().flatten();
    devices.flat_map(|it| it.taints.iter().flatten()).any(|it| it.time_added.is_none())
}

impl Resource for ResourceSlice {
    codec!();

    fn convert_stored(
        api_version: &str,
        json: &[u8],
    ) -> Option<Result<Vec<u8>, serde_json::Error>> {
        match api_version {
            "resource.k8s.io/v1beta1" => {
                Some(version::convert_stored::<v1beta1::ResourceSlice, Self>(json))
            }
            "resource.k8s.io/v1beta2" => {
                Some(version::convert_stored::<v1beta2::ResourceSlice, Self>(json))
            }
            _ => None,
        }
    }

    fn apply_defaults(&mut self) {
        for device in self.spec.devices.iter_mut().flatten() {
            for mapping in device.node_allocatable_resource_mappings.iter_mut().flatten() {
                mapping.1.allocation_multiplier.get_or_insert_with(|| Quantity("1".to_owned()));
            }
        }
    }

    fn prepare_create(&mut self) {
        gates::drop_disabled(self, None);
    }

    fn prepare_update(&mut self, stored: &Self, _part: Part) {
        gates::drop_disabled(self, Some(stored));
    }

    fn has_same_spec(&self, stored: &Self) -> bool {
        self.spec == stored.spec || semantic::equal_at("spec", self, stored)
    }

    fn generation_counts_lost() -> bool {
        true
    }

    /// What is wrong depends on what was there: see below.
    fn validate(&self, _errors: &mut FieldErrors) {}

    fn validate_create(&self, errors: &mut FieldErrors) {
        validation::validate(self, None, errors);
    }

    fn validate_update(&self, stored: &Self, _part: Part, errors: &mut FieldErrors) {
        validation::validate(self, Some(stored), errors);
    }

    fn warnings(&self) -> Vec<String> {
        let driver = &self.spec.driver;
        let is_lower = *driver == driver.to_lowercase();
        let warning = || {
            format!(
                "spec.driver: driver names should be lowercase; {driver:?} contains uppercase characters"
            )
        };
        (!is_lower).then(warning).into_iter().collect()
    }

    fn columns() -> &'static [Column] {
        const {
            &[
                Column::name(),
                Column::new("Node", "string"),
                Column::new("Driver", "string"),
                Column::new("Pool", "string"),
                Column::new("Age", "string"),
            ]
        }
    }

    fn row(&self, now: Timestamp) -> Vec<Value> {
        vec![
            cell::name(&self.metadata),
            Value::from(text(self.spec.node_name.as_ref())),
            Value::from(self.spec.driver.as_str()),
            Value::from(self.spec.pool.name.as_str()),
            cell::age(&self.metadata, now),
        ]
    }

    fn fields(&self) -> Vec<(&'static str, String)> {
        vec![
            ("spec.nodeName", text(self.spec.node_name.as_ref()).to_owned()),
            ("spec.driver", self.spec.driver.clone()),
        ]
    }

    fn field_names() -> &'static [(&'static str, &'static str)] {
        &[("spec.nodeName", "spec.nodeName"), ("spec.driver", "spec.driver")]
    }
}

/// Zero if it is none; those that are none were refused when they were decoded.
fn amount(quantity: &Quantity) -> Amount {
    Amount::parse(&quantity.0).unwrap_or_default()
}
