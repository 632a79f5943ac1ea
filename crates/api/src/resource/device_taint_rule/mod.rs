//! DeviceTaintRule: a taint for devices, by driver, pool and name. Stored as v1alpha3, as upstream
//! does.

#[cfg(test)]
mod tests;
pub mod v1beta2;
mod validation;

use apimachinery::FieldErrors;
use apimachinery::table::Column;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::Value;

use crate::check::text;
use crate::kind::{Part, Resource};
use crate::{cell, version};

pub use k8s_openapi::api::resource::v1alpha3::DeviceTaintRule;

/// Whether the taint is to be there from now on: it does not say since when, or what it does is
/// new and its time is not.
pub fn needs_taint_time(rule: &DeviceTaintRule, stored: Option<&DeviceTaintRule>) -> bool {
    let taint = &rule.spec.taint;
    let is_outdated = stored.is_some_and(|it| {
        let before = &it.spec.taint;
        before.effect != taint.effect && before.time_added == taint.time_added
    });
    taint.time_added.is_none() || is_outdated
}

pub fn set_taint_time(rule: &mut DeviceTaintRule, now: &Time) {
    rule.spec.taint.time_added = Some(now.clone());
}

impl Resource for DeviceTaintRule {
    codec!();
    spec_and_status_alone!();

    fn convert_stored(
        api_version: &str,
        json: &[u8],
    ) -> Option<Result<Vec<u8>, serde_json::Error>> {
        let is_known = api_version == "resource.k8s.io/v1beta2";
        is_known.then(|| version::convert_stored::<v1beta2::DeviceTaintRule, Self>(json))
    }

    /// What is wrong depends on what was there: see below.
    fn validate(&self, _errors: &mut FieldErrors) {}

    fn validate_create(&self, errors: &mut FieldErrors) {
        validation::validate(self, None, errors);
    }

    fn validate_update(&self, stored: &Self, part: Part, errors: &mut FieldErrors) {
        match part {
            Part::Status => validation::validate_status(self, errors),
            Part::Main | Part::Other(_) => validation::validate(self, Some(stored), errors),
        }
    }

    fn deprecation() -> Option<&'static str> {
        Some(
            "resource.k8s.io/v1alpha3 DeviceTaintRule is deprecated in v1.36+, unavailable in v1.39+",
        )
    }

    /// Whoever taints devices believes that it keeps pods from them.
    fn warnings(&self) -> Vec<String> {
        vec!["spec: accepted, but devices are not allocated on this server".to_owned()]
    }

    fn columns() -> &'static [Column] {
        const {
            &[
                Column::name(),
                Column::new("Key", "string"),
                Column::new("Value", "string"),
                Column::new("Effect", "string"),
                Column::new("TimeAdded", "string"),
                Column::new("Age", "string"),
            ]
        }
    }

    fn row(&self, now: Timestamp) -> Vec<Value> {
        let taint = &self.spec.taint;
        let since = taint.time_added.as_ref().map(|it| cell::since(Some(it), now));
        vec![
            cell::name(&self.metadata),
            Value::from(taint.key.as_str()),
            Value::from(text(taint.value.as_ref())),
            Value::from(taint.effect.as_str()),
            Value::from(since.unwrap_or_default()),
            cell::age(&self.metadata, now),
        ]
    }
}
