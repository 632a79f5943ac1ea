//! PodDisruptionBudget: how many of some pods may be evicted at a time.

mod condition;
#[cfg(test)]
mod tests;
mod validation;

use apimachinery::FieldErrors;
use apimachinery::table::Column;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use serde_json::Value;

use crate::cell;
use crate::kind::{Part, Resource};

pub use condition::{
    SYNC_FAILED, disruption_allowed, is_disruption_allowed_set, set_disruption_allowed,
    set_sync_failed,
};
pub use k8s_openapi::api::policy::v1::PodDisruptionBudget;

impl Resource for PodDisruptionBudget {
    codec!();
    spec_and_status!();

    /// Counts are always there, zero or not.
    fn apply_defaults(&mut self) {
        let status = self.status.get_or_insert_default();
        for count in [
            &mut status.current_healthy,
            &mut status.desired_healthy,
            &mut status.disruptions_allowed,
            &mut status.expected_pods,
        ] {
            count.get_or_insert(0);
        }
    }

    fn prepare_create(&mut self) {
        self.clear_status();
        self.apply_defaults();
    }

    fn validate(&self, errors: &mut FieldErrors) {
        validation::validate(self, errors);
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
                Column::new("Min Available", "string"),
                Column::new("Max Unavailable", "string"),
                Column::new("Allowed Disruptions", "integer"),
                Column::new("Age", "string"),
            ]
        }
    }

    fn row(&self, now: Timestamp) -> Vec<Value> {
        let spec = self.spec.as_ref();
        vec![
            cell::name(&self.metadata),
            bound(spec.and_then(|it| it.min_available.as_ref())),
            bound(spec.and_then(|it| it.max_unavailable.as_ref())),
            Value::from(self.status.as_ref().and_then(|it| it.disruptions_allowed).unwrap_or(0)),
            cell::age(&self.metadata, now),
        ]
    }
}

fn bound(value: Option<&IntOrString>) -> Value {
    match value {
        Some(IntOrString::Int(number)) => Value::from(number.to_string()),
        Some(IntOrString::String(text)) => Value::from(text.as_str()),
        None => Value::from("N/A"),
    }
}
