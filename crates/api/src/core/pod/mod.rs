//! Pod.

use apimachinery::FieldErrors;

use crate::kind::{Facts, Resource, Subresource};

pub use k8s_openapi::api::core::v1::Pod;

impl Resource for Pod {
    const FACTS: Facts = Facts {
        kind: "Pod",
        plural: "pods",
        singular: "pod",
        short_names: &["po"],
        categories: &["all"],
        subresources: &[
            Subresource { name: "binding", verbs: &["create"], kind: ("", "v1", "Binding") },
            Subresource {
                name: "ephemeralcontainers",
                verbs: &["get", "patch", "update"],
                kind: ("", "v1", "Pod"),
            },
            Subresource {
                name: "eviction",
                verbs: &["create"],
                kind: ("policy", "v1", "Eviction"),
            },
            Subresource {
                name: "resize",
                verbs: &["get", "patch", "update"],
                kind: ("", "v1", "Pod"),
            },
            Subresource {
                name: "status",
                verbs: &["get", "patch", "update"],
                kind: ("", "v1", "Pod"),
            },
        ],
        registry_prefix: "pods",
        storage_version_hash: "xPOwRZ+Yhw8=",
        definition: "io.k8s.api.core.v1.Pod",
        has_generation: true,
        returns_deleted: true,
        ..Facts::DEFAULT
    };

    codec!();

    fn validate(&self, _errors: &mut FieldErrors) {}
}
