//! ReplicaSet.

use apimachinery::FieldErrors;

use crate::kind::{Facts, Resource, Subresource};

pub use k8s_openapi::api::apps::v1::ReplicaSet;

impl Resource for ReplicaSet {
    const FACTS: Facts = Facts {
        group: "apps",
        kind: "ReplicaSet",
        plural: "replicasets",
        singular: "replicaset",
        short_names: &["rs"],
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
                kind: ("apps", "v1", "ReplicaSet"),
            },
        ],
        registry_prefix: "replicasets",
        storage_version_hash: "P1RzHs8/mWQ=",
        definition: "io.k8s.api.apps.v1.ReplicaSet",
        has_generation: true,
        ..Facts::DEFAULT
    };

    codec!();

    fn validate(&self, _errors: &mut FieldErrors) {}
}
