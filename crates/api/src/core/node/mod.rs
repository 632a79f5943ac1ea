//! Node.

use apimachinery::{FieldErrors, Scope};

use crate::kind::{Facts, Resource, Subresource};

pub use k8s_openapi::api::core::v1::Node;

impl Resource for Node {
    const FACTS: Facts = Facts {
        kind: "Node",
        plural: "nodes",
        singular: "node",
        short_names: &["no"],
        scope: Scope::Cluster,
        subresources: &[Subresource {
            name: "status",
            verbs: &["get", "patch", "update"],
            kind: ("", "v1", "Node"),
        }],
        registry_prefix: "minions",
        storage_version_hash: "XwShjMxG9Fs=",
        definition: "io.k8s.api.core.v1.Node",
        ..Facts::DEFAULT
    };

    codec!();

    fn validate(&self, _errors: &mut FieldErrors) {}
}
