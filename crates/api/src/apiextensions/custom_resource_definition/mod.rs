//! CustomResourceDefinition.

use apimachinery::{FieldErrors, Scope};

use crate::kind::{Facts, Resource, Subresource};

pub use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;

impl Resource for CustomResourceDefinition {
    const FACTS: Facts = Facts {
        group: "apiextensions.k8s.io",
        kind: "CustomResourceDefinition",
        plural: "customresourcedefinitions",
        singular: "customresourcedefinition",
        short_names: &["crd", "crds"],
        categories: &["api-extensions"],
        scope: Scope::Cluster,
        subresources: &[Subresource {
            name: "status",
            verbs: &["get", "patch", "update"],
            kind: ("apiextensions.k8s.io", "v1", "CustomResourceDefinition"),
        }],
        registry_prefix: "apiextensions.k8s.io/customresourcedefinitions",
        storage_version_hash: "jfWCUB31mvA=",
        definition: "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.CustomResourceDefinition",
        updates_unconditionally: false,
        has_generation: true,
        ..Facts::DEFAULT
    };

    codec!();

    fn validate(&self, _errors: &mut FieldErrors) {}
}
