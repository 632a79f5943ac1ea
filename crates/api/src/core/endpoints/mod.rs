//! Endpoints.

use apimachinery::FieldErrors;

use crate::kind::{Facts, Resource};

pub use k8s_openapi::api::core::v1::Endpoints;

impl Resource for Endpoints {
    const FACTS: Facts = Facts {
        kind: "Endpoints",
        plural: "endpoints",
        singular: "endpoints",
        short_names: &["ep"],
        registry_prefix: "services/endpoints",
        storage_version_hash: "fWeeMqaN/OA=",
        definition: "io.k8s.api.core.v1.Endpoints",
        creates_on_update: true,
        ..Facts::DEFAULT
    };

    codec!();

    fn validate(&self, _errors: &mut FieldErrors) {}
}
