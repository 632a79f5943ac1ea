//! ClusterRole.

use apimachinery::{FieldErrors, NameRule, Scope};

use crate::kind::{Facts, Resource};

pub use k8s_openapi::api::rbac::v1::ClusterRole;

impl Resource for ClusterRole {
    const FACTS: Facts = Facts {
        group: "rbac.authorization.k8s.io",
        kind: "ClusterRole",
        plural: "clusterroles",
        singular: "clusterrole",
        scope: Scope::Cluster,
        registry_prefix: "clusterroles",
        storage_version_hash: "bYE5ZWDrJ44=",
        definition: "io.k8s.api.rbac.v1.ClusterRole",
        name_rule: NameRule::PathSegment,
        creates_on_update: true,
        ..Facts::DEFAULT
    };

    codec!();

    fn validate(&self, _errors: &mut FieldErrors) {}
}
