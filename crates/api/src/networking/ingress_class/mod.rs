//! IngressClass: which controller sees to an Ingress.

#[cfg(test)]
mod tests;
mod validation;

use apimachinery::FieldErrors;
use apimachinery::table::Column;
use jiff::Timestamp;
use k8s_openapi::api::networking::v1::IngressClassParametersReference;
use serde_json::Value;

use crate::check::text;
use crate::kind::{Part, Resource};
use crate::{cell, semantic};

pub use k8s_openapi::api::networking::v1::IngressClass;

const DEFAULT_ANNOTATION: &str = "ingressclass.kubernetes.io/is-default-class";

/// Whether an Ingress that names no class gets this one.
pub fn is_default(class: &IngressClass) -> bool {
    let annotations = class.metadata.annotations.as_ref();
    annotations.and_then(|it| it.get(DEFAULT_ANNOTATION)).is_some_and(|it| it == "true")
}

impl Resource for IngressClass {
    codec!();

    fn apply_defaults(&mut self) {
        let spec = self.spec.get_or_insert_default();
        if let Some(parameters) = &mut spec.parameters {
            parameters.scope.get_or_insert_with(|| "Cluster".to_owned());
        }
    }

    fn has_same_spec(&self, stored: &Self) -> bool {
        self.spec == stored.spec || semantic::equal_at("spec", self, stored)
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
                Column::new("Controller", "string"),
                Column::new("Parameters", "string"),
                Column::new("Age", "string"),
            ]
        }
    }

    fn row(&self, now: Timestamp) -> Vec<Value> {
        let name = text(self.metadata.name.as_ref());
        let mark = if is_default(self) { " (default)" } else { "" };
        let spec = self.spec.as_ref();
        let parameters = spec.and_then(|it| it.parameters.as_ref());
        vec![
            Value::from(format!("{name}{mark}")),
            Value::from(text(spec.and_then(|it| it.controller.as_ref()))),
            Value::from(parameters.map_or_else(|| "<none>".to_owned(), reference)),
            cell::age(&self.metadata, now),
        ]
    }
}

fn reference(parameters: &IngressClassParametersReference) -> String {
    let group = parameters.api_group.as_ref().map(|it| format!(".{it}")).unwrap_or_default();
    format!("{}{group}/{}", parameters.kind, parameters.name)
}
