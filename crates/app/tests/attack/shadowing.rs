//! A definition of custom resources adds kinds; it never stands in for those that are built in.

use crate::control_plane::Cluster;
use crate::user::User;

fn definition(plural: &str, kind: &str, version: &str, approval: &str) -> String {
    let group = "rbac.authorization.k8s.io";
    format!(
        r#"{{"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {{"name": "{plural}.{group}", "annotations": {{{approval}}}}},
            "spec": {{"group": "{group}", "scope": "Namespaced", "names": {{"plural": "{plural}", "kind": "{kind}"}},
            "versions": [{{"name": "{version}", "served": true, "storage": true, "schema":
                {{"openAPIV3Schema": {{"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}}}}]}}}}"#
    )
}

/// RBAC once believed objects of a kind that somebody had defined, and deleting the definition
/// deletes its objects.
#[test]
fn a_custom_resource_is_no_role_binding() {
    let Some(cluster) = Cluster::start(0) else { return };
    cluster.ok(&["create", "namespace", "mine"]);
    let rules = [
        r#"{apiGroups: ["rbac.authorization.k8s.io"], resources: ["*"], verbs: [get, list, create, update, patch]}"#,
    ];
    let user = User::new(&cluster, "mine", "mallory", &rules);
    let bindings = cluster.ok(&["get", "clusterrolebindings,rolebindings", "-A", "-o", "name"]);

    // Without a word about approval it is not even stored.
    let bare = cluster.file("bare.json", &definition("rolebindings", "RoleBinding", "v9", ""));
    let refusal = cluster.refused(&["create", "-f", &bare]);
    assert!(refusal.contains("protected groups must have approval annotation"), "{refusal}");
    let wrong =
        definition("rolebindings", "RoleBinding", "v9", r#""api-approved.kubernetes.io": "yes""#);
    let wrong = cluster.file("wrong.json", &wrong);
    let refusal = cluster.refused(&["create", "-f", &wrong]);
    assert!(refusal.contains("with either a URL or a reason starting with"), "{refusal}");

    let unapproved = r#""api-approved.kubernetes.io": "unapproved, a test""#;
    for version in ["v1", "v9"] {
        for (plural, kind) in
            [("rolebindings", "RoleBinding"), ("clusterrolebindings", "ClusterRoleBinding")]
        {
            let name = format!("{plural}.rbac.authorization.k8s.io");
            let shadow = definition(plural, kind, version, unapproved);
            let path = cluster.file("shadow.json", &shadow);
            cluster.ok(&["create", "-f", &path]);
            let conditions = cluster.until(
                &[
                    "get",
                    "crd",
                    &name,
                    "-o",
                    "jsonpath={range .status.conditions[*]}{.type}={.status} {.reason}; {end}",
                ],
                |it| it.contains("NamesAccepted"),
            );
            assert!(conditions.contains("NamesAccepted=False"), "{conditions}");
            assert!(conditions.contains("Established=False NotAccepted"), "{conditions}");
            assert!(
                conditions
                    .contains("KubernetesAPIApprovalPolicyConformant=False UnapprovedAnnotation"),
                "{conditions}"
            );
            attempt(&user, version, plural, kind);
            // Going, it takes nothing along but itself.
            cluster.ok(&["delete", "crd", &name]);
            let after =
                cluster.ok(&["get", "clusterrolebindings,rolebindings", "-A", "-o", "name"]);
            assert_eq!(after, bindings);
        }
    }
}

/// An object that would make mallory the root of the cluster, if it were what it says.
fn attempt(user: &User, version: &str, plural: &str, kind: &str) {
    let group = "rbac.authorization.k8s.io";
    let body = format!(
        r#"{{"apiVersion": "{group}/{version}", "kind": "{kind}", "metadata": {{"name": "x"}},
            "roleRef": {{"apiGroup": "{group}", "kind": "ClusterRole", "name": "cluster-admin"}},
            "subjects": [{{"kind": "ServiceAccount", "name": "mallory", "namespace": "mine"}}]}}"#
    );
    let made = user.post(&format!("/apis/{group}/{version}/namespaces/mine/{plural}"), &body);
    assert!(matches!(made.code, 403 | 404), "{version} {plural}: {made:?}");
    for path in [
        "/api/v1/namespaces/kube-system/secrets",
        "/api/v1/namespaces/mine/secrets",
        "/api/v1/nodes",
    ] {
        assert_eq!(user.curl(path, &[]).code, 403, "{path}");
    }
}
