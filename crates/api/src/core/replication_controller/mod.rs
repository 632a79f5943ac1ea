//! ReplicationController.

use apimachinery::FieldErrors;

use crate::kind::{DeletePolicy, Facts, Resource, Subresource};

pub use k8s_openapi::api::core::v1::ReplicationController;

impl Resource for ReplicationController {
    const FACTS: Facts = Facts {
        kind: "ReplicationController",
        plural: "replicationcontrollers",
        singular: "replicationcontroller",
        short_names: &["rc"],
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
                kind: ("", "v1", "ReplicationController"),
            },
        ],
        registry_prefix: "controllers",
        storage_version_hash: "Jond2If31h0=",
        definition: "io.k8s.api.core.v1.ReplicationController",
        has_generation: true,
        default_delete: DeletePolicy::Orphan,
        ..Facts::DEFAULT
    };

    codec!();

    fn validate(&self, _errors: &mut FieldErrors) {}
}
