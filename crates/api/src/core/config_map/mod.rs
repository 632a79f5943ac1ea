//! ConfigMap.

use apimachinery::FieldErrors;

use crate::kind::{Facts, Resource};

pub use k8s_openapi::api::core::v1::ConfigMap;

impl Resource for ConfigMap {
    const FACTS: Facts = Facts {
        kind: "ConfigMap",
        plural: "configmaps",
        singular: "configmap",
        short_names: &["cm"],
        registry_prefix: "configmaps",
        storage_version_hash: "qFsyl6wFWjQ=",
        definition: "io.k8s.api.core.v1.ConfigMap",
        ..Facts::DEFAULT
    };

    codec!();

    fn validate(&self, _errors: &mut FieldErrors) {}
}
