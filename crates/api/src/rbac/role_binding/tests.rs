//! Manifest in; problems, defaults and cells out.

use serde_json::json;

use super::RoleBinding;
use crate::kind::Part;
use crate::rbac::ClusterRoleBinding;
use crate::testing::{check, check_created, check_row, check_update, created};

#[test]
fn groups_are_filled_in() {
    let manifest = json!({
        "metadata": {"name": "b"}, "roleRef": {"kind": "Role", "name": "r"},
        "subjects": [{"kind": "User", "name": "u"}, {"kind": "ServiceAccount", "name": "s", "namespace": "n"}],
    });
    check_created::<RoleBinding>(
        manifest.clone(),
        "/subjects/0/apiGroup",
        json!("rbac.authorization.k8s.io"),
    );
    check::<RoleBinding>(manifest.clone(), &[]);
    check_row::<RoleBinding>(
        manifest,
        "2026-01-01T00:00:00Z",
        json!(["b", "Role/r", "<unknown>", "u", "", "n/s"]),
    );
}

#[test]
fn a_cluster_binding_names_namespaces_and_cluster_roles() {
    check::<ClusterRoleBinding>(
        json!({"roleRef": {"kind": "Role", "name": "r"}, "subjects": [{"kind": "ServiceAccount", "name": "s"}]}),
        &[
            "roleRef.kind: Unsupported value: \"Role\": supported values: \"ClusterRole\"",
            "subjects[0].namespace: Required value",
        ],
    );
}

#[test]
fn the_role_never_changes() {
    let stored = created::<RoleBinding>(json!({"roleRef": {"kind": "Role", "name": "a"}}));
    check_update(
        &stored,
        json!({"roleRef": {"kind": "Role", "name": "b"}}),
        Part::Main,
        &[
            "roleRef: Invalid value: {\"apiGroup\":\"rbac.authorization.k8s.io\",\"kind\":\"Role\",\"name\":\"b\"}: cannot change roleRef",
        ],
    );
}
