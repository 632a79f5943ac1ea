//! ReplicationController: what ReplicaSet was before it, and still served.

mod table;
#[cfg(test)]
mod tests;
mod validation;

use apimachinery::FieldErrors;

use crate::kind::Resource;

use apimachinery::field::Path;
use apimachinery::selector::Labels;
use apimachinery::table::Column;
use jiff::Timestamp;
use serde_json::Value;

use crate::apps::workload;
use crate::kind::{Part, Scale};

pub use k8s_openapi::api::core::v1::ReplicationController;

impl Resource for ReplicationController {
    codec!();
    spec_and_status!();

    fn apply_defaults(&mut self) {
        defaults(self);
    }

    fn validate(&self, errors: &mut FieldErrors) {
        validation::validate(self, errors);
    }

    fn validate_update(&self, stored: &Self, part: Part, errors: &mut FieldErrors) {
        validation::validate_update(self, stored, part, errors);
    }

    fn warnings(&self) -> Vec<String> {
        let mut warnings = workload::name_warnings(&self.metadata);
        warnings.extend(template_warnings(self));
        warnings
    }

    /// Of the template that was there, as upstream does.
    fn update_warnings(&self, stored: &Self, part: Part) -> Vec<String> {
        if part == Part::Status || !workload::is_new_generation(&self.metadata, &stored.metadata) {
            return Vec::new();
        }
        template_warnings(stored)
    }

    fn columns() -> &'static [Column] {
        table::COLUMNS
    }

    fn row(&self, now: Timestamp) -> Vec<Value> {
        table::row(self, now)
    }

    fn fields(&self) -> Vec<(&'static str, String)> {
        let replicas = self.status.as_ref().map_or(0, |it| it.replicas);
        vec![("status.replicas", replicas.to_string())]
    }

    fn field_names() -> &'static [(&'static str, &'static str)] {
        &[("status.replicas", "status.replicas")]
    }

    fn scale(&self) -> Option<Scale> {
        let spec = self.spec.as_ref()?;
        let selector = spec.selector.as_ref().map(|it| Labels::from_map(it).to_string());
        Some(Scale {
            spec_replicas: spec.replicas.unwrap_or(1),
            status_replicas: self.status.as_ref().map_or(0, |it| it.replicas),
            selector: selector.unwrap_or_default(),
        })
    }

    fn set_replicas(&mut self, replicas: i32) {
        self.spec.get_or_insert_default().replicas = Some(replicas);
    }
}

fn template_warnings(controller: &ReplicationController) -> Vec<String> {
    let template = controller.spec.as_ref().and_then(|it| it.template.as_ref());
    let path = Path::new("spec.template");
    template.map(|it| workload::template_warnings(it, &path)).unwrap_or_default()
}

fn defaults(controller: &mut ReplicationController) {
    let spec = controller.spec.get_or_insert_default();
    spec.replicas.get_or_insert(1);
    let Some(template) = &mut spec.template else { return };
    workload::apply_template_defaults(template);
    let Some(labels) = template.metadata.as_ref().and_then(|it| it.labels.clone()) else { return };
    if spec.selector.as_ref().is_none_or(|it| it.is_empty()) {
        spec.selector = Some(labels.clone());
    }
    if controller.metadata.labels.as_ref().is_none_or(|it| it.is_empty()) {
        controller.metadata.labels = Some(labels);
    }
}
