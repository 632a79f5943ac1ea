//! ClusterRoleBinding.

use apimachinery::{FieldErrors, NameRule, Scope};

use crate::kind::{Facts, Resource};

pub use k8s_openapi::api::rbac::v1::ClusterRoleBinding;

impl Resource for ClusterRoleBinding {
    const FACTS: Facts = Facts {
        group: "rbac.authorization.k8s.io",
        kind: "ClusterRoleBinding",
        plural: "clusterrolebindings",
        singular: "clusterrolebinding",
        scope: Scope::Cluster,
        registry_prefix: "clusterrolebindings",
        storage_version_hash: "48tpQ8gZHFc=",
        definition: "io.k8s.api.rbac.v1.ClusterRoleBinding",
        name_rule: NameRule::PathSegment,
        creates_on_update: true,
        ..Facts::DEFAULT
    };

    codec!();

    fn validate(&self, _errors: &mut FieldErrors) {}
}
