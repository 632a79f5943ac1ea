//! RoleBinding.

use apimachinery::{FieldErrors, NameRule};

use crate::kind::{Facts, Resource};

pub use k8s_openapi::api::rbac::v1::RoleBinding;

impl Resource for RoleBinding {
    const FACTS: Facts = Facts {
        group: "rbac.authorization.k8s.io",
        kind: "RoleBinding",
        plural: "rolebindings",
        singular: "rolebinding",
        registry_prefix: "rolebindings",
        storage_version_hash: "eGsCzGH6b1g=",
        definition: "io.k8s.api.rbac.v1.RoleBinding",
        name_rule: NameRule::PathSegment,
        creates_on_update: true,
        ..Facts::DEFAULT
    };

    codec!();

    fn validate(&self, _errors: &mut FieldErrors) {}
}
