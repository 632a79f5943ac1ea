//! VolumeAttachment: a volume that should be attached to a node, and whether it is.

#[cfg(test)]
mod tests;
mod validation;

use apimachinery::FieldErrors;
use apimachinery::table::Column;
use jiff::Timestamp;
use serde_json::Value;

use crate::cell;
use crate::check::text;
use crate::core::persistent_volume;
use crate::kind::{Part, Resource};

pub use k8s_openapi::api::storage::v1::VolumeAttachment;

impl Resource for VolumeAttachment {
    codec!();
    spec_and_status_alone!();

    fn apply_defaults(&mut self) {
        // `attached` is always there.
        self.status.get_or_insert_default();
        if let Some(spec) = &mut self.spec.source.inline_volume_spec {
            persistent_volume::defaults::apply_to_spec(spec);
        }
    }

    fn validate(&self, errors: &mut FieldErrors) {
        validation::validate(self, errors);
    }

    fn validate_update(&self, stored: &Self, _part: Part, errors: &mut FieldErrors) {
        validation::validate_update(self, stored, errors);
    }

    fn columns() -> &'static [Column] {
        const {
            &[
                Column::name(),
                Column::with_format("Attacher", "string", "name"),
                Column::new("PV", "string"),
                Column::new("Node", "string"),
                Column::new("Attached", "boolean"),
                Column::new("Age", "string"),
            ]
        }
    }

    fn row(&self, now: Timestamp) -> Vec<Value> {
        vec![
            cell::name(&self.metadata),
            Value::from(self.spec.attacher.as_str()),
            Value::from(text(self.spec.source.persistent_volume_name.as_ref())),
            Value::from(self.spec.node_name.as_str()),
            Value::from(self.status.as_ref().is_some_and(|it| it.attached)),
            cell::age(&self.metadata, now),
        ]
    }
}
