//! APIService: who serves a version of a group: this server, or another one behind a Service.

pub mod availability;
#[cfg(test)]
mod tests;
mod validation;

use apimachinery::FieldErrors;
use apimachinery::table::Column;
use jiff::Timestamp;
use serde_json::Value;

use self::availability::Verdict;
use crate::cell;
use crate::check::text;
use crate::kind::{Part, Resource};

pub use k8s_openapi::kube_aggregator::pkg::apis::apiregistration::v1::APIService;

/// `v1.apps`; `v1.` for the core group.
pub fn name_of(group: &str, version: &str) -> String {
    format!("{version}.{group}")
}

impl Resource for APIService {
    codec!();
    spec_and_status_alone!();

    fn apply_defaults(&mut self) {
        const PORT: i32 = 443;
        if let Some(service) = &mut self.spec.get_or_insert_default().service {
            service.port.get_or_insert(PORT);
        }
    }

    /// Whether it is served here is known from the start; of others nothing is known yet.
    fn prepare_create(&mut self) {
        self.clear_status();
        if availability::is_local(self) {
            let now = self.metadata.creation_timestamp.as_ref().map(|it| it.0).unwrap_or_default();
            availability::set(self, Verdict::local(), now);
        }
    }

    /// What is wrong depends on the part: see below.
    fn validate(&self, _errors: &mut FieldErrors) {}

    fn validate_create(&self, errors: &mut FieldErrors) {
        validation::validate(self, errors);
    }

    fn validate_update(&self, _stored: &Self, part: Part, errors: &mut FieldErrors) {
        match part {
            Part::Status => validation::validate_status(self, errors),
            Part::Main | Part::Other(_) => validation::validate(self, errors),
        }
    }

    fn columns() -> &'static [Column] {
        const {
            &[
                Column::name(),
                Column::new("Service", "string"),
                Column::new("Available", "string"),
                Column::new("Age", "string"),
            ]
        }
    }

    fn row(&self, now: Timestamp) -> Vec<Value> {
        let service = self
            .spec
            .as_ref()
            .and_then(|it| it.service.as_ref())
            .map(|it| format!("{}/{}", text(it.namespace.as_ref()), text(it.name.as_ref())));
        vec![
            cell::name(&self.metadata),
            Value::from(service.unwrap_or_else(|| "Local".to_owned())),
            Value::from(availability::cell(self)),
            cell::age(&self.metadata, now),
        ]
    }
}
