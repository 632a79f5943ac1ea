//! FlowSchema: which requests are of which priority level, and whose among them share a queue.

mod dangling;
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

pub use dangling::with_dangling;
pub use k8s_openapi::api::flowcontrol::v1::FlowSchema;
pub(super) use validation::validate_condition_types;

const PRECEDENCE_DEFAULT: i32 = 1000;

impl Resource for FlowSchema {
    codec!();
    spec_and_status_alone!();

    /// Both halves are always there.
    fn apply_defaults(&mut self) {
        let spec = self.spec.get_or_insert_default();
        if spec.matching_precedence.unwrap_or(0) == 0 {
            spec.matching_precedence = Some(PRECEDENCE_DEFAULT);
        }
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
                Column::new("PriorityLevel", "string"),
                Column::new("MatchingPrecedence", "string"),
                Column::new("DistinguisherMethod", "string"),
                Column::new("Age", "string"),
                Column::new("MissingPL", "string"),
            ]
        }
    }

    fn row(&self, now: Timestamp) -> Vec<Value> {
        let spec = self.spec.clone().unwrap_or_default();
        let method = spec.distinguisher_method.map_or_else(|| "<none>".to_owned(), |it| it.type_);
        vec![
            cell::name(&self.metadata),
            Value::from(spec.priority_level_configuration.name),
            Value::from(spec.matching_precedence.unwrap_or(0)),
            Value::from(method),
            cell::age(&self.metadata, now),
            Value::from(is_dangling(self)),
        ]
    }
}

/// Whether its level is missing; `?` while nobody has looked.
fn is_dangling(schema: &FlowSchema) -> &str {
    let conditions = schema.status.as_ref().and_then(|it| it.conditions.as_deref());
    let mut all = conditions.unwrap_or_default().iter();
    let found = all.find(|it| text(it.type_.as_ref()) == dangling::DANGLING);
    found.map_or("?", |it| text(it.status.as_ref()))
}
