//! Deployment.

use apimachinery::FieldErrors;

use crate::kind::{Facts, Resource, Subresource};

pub use k8s_openapi::api::apps::v1::Deployment;

impl Resource for Deployment {
    const FACTS: Facts = Facts {
        group: "apps",
        kind: "Deployment",
        plural: "deployments",
        singular: "deployment",
        short_names: &["deploy"],
        categories: &["all"],
        subresources: &[
            Subresource {
                name: "scale",
                verbs: &["get", "patch", "update"],
                kind: ("autoscaling", "v1", "Scale"),
            },
            Subresource {
                name: "status",
                verbs: &["get", "patch", "update"],
                kind: ("apps", "v1", "Deployment"),
            },
        ],
        registry_prefix: "deployments",
        storage_version_hash: "8aSe+NMegvE=",
        definition: "io.k8s.api.apps.v1.Deployment",
        has_generation: true,
        ..Facts::DEFAULT
    };

    codec!();

    fn validate(&self, _errors: &mut FieldErrors) {}
}
