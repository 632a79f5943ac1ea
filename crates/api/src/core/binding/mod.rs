//! Binding.

use apimachinery::FieldErrors;

use crate::kind::{Facts, Resource};

pub use k8s_openapi::api::core::v1::Binding;

impl Resource for Binding {
    const FACTS: Facts = Facts {
        kind: "Binding",
        plural: "bindings",
        singular: "binding",
        verbs: &["create"],
        definition: "io.k8s.api.core.v1.Binding",
        ..Facts::DEFAULT
    };

    codec!();

    fn validate(&self, _errors: &mut FieldErrors) {}
}
