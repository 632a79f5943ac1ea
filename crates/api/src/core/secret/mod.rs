//! Secret.

use apimachinery::FieldErrors;

use crate::kind::{Facts, Resource};

pub use k8s_openapi::api::core::v1::Secret;

impl Resource for Secret {
    const FACTS: Facts = Facts {
        kind: "Secret",
        plural: "secrets",
        singular: "secret",
        registry_prefix: "secrets",
        storage_version_hash: "S6u1pOWzb84=",
        definition: "io.k8s.api.core.v1.Secret",
        ..Facts::DEFAULT
    };

    codec!();

    fn validate(&self, _errors: &mut FieldErrors) {}
}
