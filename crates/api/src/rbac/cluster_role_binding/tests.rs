//! Manifest in; problems, defaults and cells out.

use serde_json::{Value, json};

use super::ClusterRoleBinding;
use crate::kind::Part;
use crate::testing::{check, check_created, check_row, check_update, created};

fn binding(subjects: Value) -> Value {
    json!({
        "metadata": {"name": "b"}, "roleRef": {"kind": "ClusterRole", "name": "r"},
        "subjects": subjects,
    })
}

#[test]
fn groups_are_filled_in() {
    let subjects = json!([
        {"kind": "User", "name": "u"}, {"kind": "Group", "name": "g"},
        {"kind": "ServiceAccount", "name": "s", "namespace": "n"},
    ]);
    let group = json!("rbac.authorization.k8s.io");
    for (pointer, expected) in [
        ("/roleRef/apiGroup", group.clone()),
        ("/subjects/0/apiGroup", group.clone()),
        ("/subjects/1/apiGroup", group),
        ("/subjects/2/apiGroup", Value::Null),
    ] {
        check_created::<ClusterRoleBinding>(binding(subjects.clone()), pointer, expected);
    }
    check::<ClusterRoleBinding>(binding(subjects.clone()), &[]);
    check_row::<ClusterRoleBinding>(
        binding(subjects),
        "2026-01-01T00:00:00Z",
        json!(["b", "ClusterRole/r", "<unknown>", "u", "g", "n/s"]),
    );
}

#[test]
fn everywhere_only_a_cluster_role_can_be_given() {
    check::<ClusterRoleBinding>(
        json!({"roleRef": {"kind": "Role", "name": "r"}}),
        &["roleRef.kind: Unsupported value: \"Role\": supported values: \"ClusterRole\""],
    );
    check::<ClusterRoleBinding>(
        json!({"roleRef": {"apiGroup": "a.b", "kind": "ClusterRole", "name": ""}}),
        &[
            "roleRef.apiGroup: Unsupported value: \"a.b\": supported values: \"rbac.authorization.k8s.io\"",
            "roleRef.name: Required value",
        ],
    );
}

#[test]
fn subjects_are_users_groups_and_accounts_of_a_namespace() {
    check::<ClusterRoleBinding>(binding(json!([])), &[]);
    check::<ClusterRoleBinding>(
        binding(json!([
            {"kind": "ServiceAccount", "name": "s"},
            {"kind": "User", "name": ""},
            {"kind": "Robot", "name": "r"},
        ])),
        &[
            "subjects[0].namespace: Required value",
            "subjects[1].name: Required value",
            "subjects[2].kind: Unsupported value: \"Robot\": supported values: \"ServiceAccount\", \"User\", \"Group\"",
        ],
    );
}

#[test]
fn subjects_change_and_the_role_never_does() {
    let stored = created::<ClusterRoleBinding>(binding(json!([])));
    check_update(&stored, binding(json!([{"kind": "User", "name": "u"}])), Part::Main, &[]);
    check_update(
        &stored,
        json!({"metadata": {"name": "b"}, "roleRef": {"kind": "ClusterRole", "name": "other"}}),
        Part::Main,
        &[
            "roleRef: Invalid value: {\"apiGroup\":\"rbac.authorization.k8s.io\",\"kind\":\"ClusterRole\",\"name\":\"other\"}: cannot change roleRef",
        ],
    );
}
