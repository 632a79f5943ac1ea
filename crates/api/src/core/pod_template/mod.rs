//! PodTemplate: a template for pods that nothing is made from by itself.

#[cfg(test)]
mod tests;

use apimachinery::FieldErrors;
use apimachinery::field::Path;
use apimachinery::table::Column;
use jiff::Timestamp;
use serde_json::Value;

use super::pod_spec::validation::template;
use crate::apps::workload;
use crate::kind::{Part, Resource};
use crate::{cell, semantic};

pub use k8s_openapi::api::core::v1::PodTemplate;

impl Resource for PodTemplate {
    codec!();

    fn apply_defaults(&mut self) {
        workload::apply_template_defaults(self.template.get_or_insert_default());
    }

    fn is_new_generation(&self, stored: &Self) -> bool {
        self.template != stored.template && !semantic::equal_at("template", self, stored)
    }

    fn validate(&self, errors: &mut FieldErrors) {
        let template = self.template.clone().unwrap_or_default();
        template::validate_template(&template, &Path::new("template"), errors);
    }

    fn warnings(&self) -> Vec<String> {
        let path = Path::new("template");
        self.template.as_ref().map(|it| workload::template_warnings(it, &path)).unwrap_or_default()
    }

    fn update_warnings(&self, stored: &Self, _part: Part) -> Vec<String> {
        if !workload::is_new_generation(&self.metadata, &stored.metadata) {
            return Vec::new();
        }
        self.warnings()
    }

    fn columns() -> &'static [Column] {
        const {
            &[
                Column::name(),
                Column::new("Containers", "string"),
                Column::new("Images", "string"),
                Column::new("Pod Labels", "string"),
            ]
        }
    }

    fn row(&self, _now: Timestamp) -> Vec<Value> {
        let template = self.template.as_ref();
        let [names, images] = cell::template_containers(template);
        let labels = template.and_then(|it| it.metadata.as_ref()?.labels.as_ref());
        vec![cell::name(&self.metadata), names, images, cell::labels(labels)]
    }
}
