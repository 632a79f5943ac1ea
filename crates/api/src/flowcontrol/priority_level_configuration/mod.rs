//! PriorityLevelConfiguration: how many requests of a level are carried out at a time, and what
//! becomes of the others.

#[cfg(test)]
mod tests;
mod validation;

use apimachinery::FieldErrors;
use apimachinery::table::Column;
use jiff::Timestamp;
use k8s_openapi::api::flowcontrol::v1::{
    ExemptPriorityLevelConfiguration, LimitedPriorityLevelConfiguration,
};
use serde_json::Value;

use crate::cell;
use crate::kind::{Part, Resource};

pub use k8s_openapi::api::flowcontrol::v1::PriorityLevelConfiguration;

const SHARES_DEFAULT: i32 = 30;
const HAND_SIZE_DEFAULT: i32 = 8;
const QUEUES_DEFAULT: i32 = 64;
const QUEUE_LENGTH_DEFAULT: i32 = 50;

impl Resource for PriorityLevelConfiguration {
    codec!();
    spec_and_status_alone!();

    /// Both halves are always there.
    fn apply_defaults(&mut self) {
        let spec = self.spec.get_or_insert_default();
        spec.exempt.iter_mut().for_each(complete_exempt);
        spec.limited.iter_mut().for_each(complete_limited);
        self.status.get_or_insert_default();
    }

    fn validate(&self, errors: &mut FieldErrors) {
        validation::validate_status(self, errors);
    }

    fn validate_create(&self, errors: &mut FieldErrors) {
        validation::validate(self, errors);
    }

    fn validate_update(&self, _stored: &Self, part: Part, errors: &mut FieldErrors) {
        if part != Part::Status {
            validation::validate(self, errors);
        }
    }

    fn warnings(&self) -> Vec<String> {
        super::unheeded()
    }

    fn columns() -> &'static [Column] {
        const {
            &[
                Column::name(),
                Column::new("Type", "string"),
                Column::new("NominalConcurrencyShares", "string"),
                Column::new("Queues", "string"),
                Column::new("HandSize", "string"),
                Column::new("QueueLengthLimit", "string"),
                Column::new("Age", "string"),
            ]
        }
    }

    fn row(&self, now: Timestamp) -> Vec<Value> {
        let spec = self.spec.clone().unwrap_or_default();
        let limited = spec.limited.as_ref();
        let response = limited.and_then(|it| it.limit_response.as_ref());
        let queuing = response.and_then(|it| it.queuing.as_ref());
        let number = |it: Option<i32>| it.map_or_else(|| Value::from("<none>"), Value::from);
        vec![
            cell::name(&self.metadata),
            Value::from(spec.type_.as_str()),
            number(limited.map(|it| it.nominal_concurrency_shares.unwrap_or(0))),
            number(queuing.map(|it| it.queues.unwrap_or(0))),
            number(queuing.map(|it| it.hand_size.unwrap_or(0))),
            number(queuing.map(|it| it.queue_length_limit.unwrap_or(0))),
            cell::age(&self.metadata, now),
        ]
    }
}

fn complete_exempt(exempt: &mut ExemptPriorityLevelConfiguration) {
    exempt.nominal_concurrency_shares.get_or_insert(0);
    exempt.lendable_percent.get_or_insert(0);
}

fn complete_limited(limited: &mut LimitedPriorityLevelConfiguration) {
    limited.nominal_concurrency_shares.get_or_insert(SHARES_DEFAULT);
    limited.lendable_percent.get_or_insert(0);
    let response = limited.limit_response.get_or_insert_default();
    let Some(queuing) = &mut response.queuing else { return };
    for (number, default) in [
        (&mut queuing.hand_size, HAND_SIZE_DEFAULT),
        (&mut queuing.queues, QUEUES_DEFAULT),
        (&mut queuing.queue_length_limit, QUEUE_LENGTH_DEFAULT),
    ] {
        if number.unwrap_or(0) == 0 {
            *number = Some(default);
        }
    }
}
