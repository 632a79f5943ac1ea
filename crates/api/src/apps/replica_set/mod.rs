//! ReplicaSet: a number of pods of one template.

mod table;
#[cfg(test)]
mod tests;
mod validation;

use apimachinery::FieldErrors;

use crate::kind::Resource;

use apimachinery::field::Path;
use apimachinery::table::Column;
use jiff::Timestamp;
use serde_json::Value;

use super::workload;
use crate::kind::{Part, Scale};

pub use k8s_openapi::api::apps::v1::ReplicaSet;

impl Resource for ReplicaSet {
    codec!(with_selector);
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

    fn update_warnings(&self, stored: &Self, part: Part) -> Vec<String> {
        if part == Part::Status || !workload::is_new_generation(&self.metadata, &stored.metadata) {
            return Vec::new();
        }
        template_warnings(self)
    }

    fn columns() -> &'static [Column] {
        table::COLUMNS
    }

    fn row(&self, now: Timestamp) -> Vec<Value> {
        table::row(self, now)
    }

    fn scale(&self) -> Option<Scale> {
        let spec = self.spec.as_ref()?;
        Some(Scale {
            spec_replicas: spec.replicas.unwrap_or(1),
            status_replicas: self.status.as_ref().map_or(0, |it| it.replicas),
            selector: workload::selector_text(&spec.selector),
        })
    }

    fn set_replicas(&mut self, replicas: i32) {
        self.spec.get_or_insert_default().replicas = Some(replicas);
    }
}

fn template_warnings(replica_set: &ReplicaSet) -> Vec<String> {
    let template = replica_set.spec.as_ref().and_then(|it| it.template.as_ref());
    let path = Path::new("spec.template");
    template.map(|it| workload::template_warnings(it, &path)).unwrap_or_default()
}

fn defaults(replica_set: &mut ReplicaSet) {
    let spec = replica_set.spec.get_or_insert_default();
    spec.replicas.get_or_insert(1);
    workload::apply_template_defaults(spec.template.get_or_insert_default());
}
