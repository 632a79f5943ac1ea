//! ControllerRevision: a state that a controller may go back to. It never changes.

#[cfg(test)]
mod tests;

use apimachinery::FieldErrors;
use apimachinery::field::Path;
use apimachinery::table::Column;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use serde_json::Value;

use crate::kind::{Part, Resource};
use crate::{cell, check};

pub use k8s_openapi::api::apps::v1::ControllerRevision;

impl Resource for ControllerRevision {
    codec!();

    fn validate(&self, errors: &mut FieldErrors) {
        check::non_negative(self.revision, &Path::new("revision"), errors);
    }

    fn validate_create(&self, errors: &mut FieldErrors) {
        let path = Path::new("data");
        match data(self) {
            Value::Object(_) => {}
            Value::Null => errors.required(&path, "data is mandatory"),
            _ => errors.required(&path, "data must be a valid JSON object"),
        }
    }

    fn validate_update(&self, stored: &Self, _part: Part, errors: &mut FieldErrors) {
        let is_same = data(self) == data(stored);
        check::immutable(is_same, data(self).clone(), &Path::new("data"), errors);
    }

    fn columns() -> &'static [Column] {
        const {
            &[
                Column::name(),
                Column::new("Controller", "string"),
                Column::new("Revision", "string"),
                Column::new("Age", "string"),
            ]
        }
    }

    fn row(&self, now: Timestamp) -> Vec<Value> {
        let owners = self.metadata.owner_references.iter().flatten();
        let controller = owners.into_iter().find(|it| it.controller == Some(true));
        vec![
            cell::name(&self.metadata),
            Value::from(controller.map_or_else(|| "<none>".to_owned(), typed_name)),
            Value::from(self.revision),
            cell::age(&self.metadata, now),
        ]
    }
}

fn data(revision: &ControllerRevision) -> &Value {
    revision.data.as_ref().map_or(&Value::Null, |it| &it.0)
}

/// `statefulset.apps/web`.
fn typed_name(owner: &OwnerReference) -> String {
    let kind = owner.kind.to_lowercase();
    match owner.api_version.split_once('/') {
        Some((group, _)) => format!("{kind}.{group}/{}", owner.name),
        None => format!("{kind}/{}", owner.name),
    }
}
