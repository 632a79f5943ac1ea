//! Namespace.

use apimachinery::{FieldErrors, NameRule, Scope};

use crate::kind::{Facts, Resource, Subresource};

pub use k8s_openapi::api::core::v1::Namespace;

impl Resource for Namespace {
    const FACTS: Facts = Facts {
        kind: "Namespace",
        plural: "namespaces",
        singular: "namespace",
        short_names: &["ns"],
        scope: Scope::Cluster,
        verbs: &["create", "delete", "get", "list", "patch", "update", "watch"],
        subresources: &[
            Subresource { name: "finalize", verbs: &["update"], kind: ("", "v1", "Namespace") },
            Subresource {
                name: "status",
                verbs: &["get", "patch", "update"],
                kind: ("", "v1", "Namespace"),
            },
        ],
        registry_prefix: "namespaces",
        storage_version_hash: "Q3oi5N2YM8M=",
        definition: "io.k8s.api.core.v1.Namespace",
        name_rule: NameRule::DnsLabel,
        returns_deleted: true,
        ..Facts::DEFAULT
    };

    codec!();

    fn validate(&self, _errors: &mut FieldErrors) {}
}
