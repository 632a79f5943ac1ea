//! Service.

use apimachinery::{FieldErrors, NameRule};

use crate::kind::{Facts, Resource, Subresource};

pub use k8s_openapi::api::core::v1::Service;

impl Resource for Service {
    const FACTS: Facts = Facts {
        kind: "Service",
        plural: "services",
        singular: "service",
        short_names: &["svc"],
        categories: &["all"],
        subresources: &[Subresource {
            name: "status",
            verbs: &["get", "patch", "update"],
            kind: ("", "v1", "Service"),
        }],
        registry_prefix: "services/specs",
        storage_version_hash: "0/CO1lhkEBI=",
        definition: "io.k8s.api.core.v1.Service",
        name_rule: NameRule::DnsLabel,
        creates_on_update: true,
        returns_deleted: true,
        ..Facts::DEFAULT
    };

    codec!();

    fn validate(&self, _errors: &mut FieldErrors) {}
}
