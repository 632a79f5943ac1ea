//! What is in no namespace is not reached through one, nor a namespace through a name.

use crate::control_plane::Cluster;
use crate::user::User;

/// Whoever may do everything in one namespace made nodes, definitions and bindings of the cluster
/// this way.
#[test]
fn a_namespace_is_no_way_to_the_cluster() {
    let Some(cluster) = Cluster::start(0) else { return };
    cluster.ok(&["create", "namespace", "mine"]);
    cluster.ok(&["create", "secret", "generic", "treasure", "-n", "default"]);
    let everything = r#"{apiGroups: ["*"], resources: ["*"], verbs: ["*"]}"#;
    let user = User::new(&cluster, "mine", "owner", &[everything]);
    let json = "Content-Type: application/json";
    let apply = "Content-Type: application/apply-patch+yaml";
    let resources = [
        ("/api/v1", "nodes", "Node", "v1"),
        ("/api/v1", "namespaces", "Namespace", "v1"),
        (
            "/apis/apiextensions.k8s.io/v1",
            "customresourcedefinitions",
            "CustomResourceDefinition",
            "apiextensions.k8s.io/v1",
        ),
        (
            "/apis/rbac.authorization.k8s.io/v1",
            "clusterroles",
            "ClusterRole",
            "rbac.authorization.k8s.io/v1",
        ),
        (
            "/apis/rbac.authorization.k8s.io/v1",
            "clusterrolebindings",
            "ClusterRoleBinding",
            "rbac.authorization.k8s.io/v1",
        ),
    ];
    for (group, plural, kind, version) in resources {
        let all = format!("{group}/namespaces/mine/{plural}");
        let one = format!("{all}/taken");
        let body = format!(
            r#"{{"apiVersion": "{version}", "kind": "{kind}", "metadata": {{"name": "taken"}}}}"#
        );
        let attempts: [(&str, &[&str]); 9] = [
            (&all, &[]),
            (&format!("{all}?watch=true"), &[]),
            (&one, &[]),
            (&all, &["-X", "POST", "-H", json, "-d", &body]),
            (&one, &["-X", "PUT", "-H", json, "-d", &body]),
            (&format!("{one}?fieldManager=x"), &["-X", "PATCH", "-H", apply, "-d", &body]),
            (&format!("{one}/status"), &["-X", "PUT", "-H", json, "-d", &body]),
            (&one, &["-X", "DELETE"]),
            (&all, &["-X", "DELETE"]),
        ];
        for (path, arguments) in attempts {
            let answer = user.curl(path, arguments);
            // Namespaces have no deletion of many, whatever the path; some kinds have no status.
            assert!(matches!(answer.code, 404 | 405), "{arguments:?} {path}: {answer:?}");
        }
        let found = cluster.run(&["get", plural, "taken"]);
        assert!(!found.is_ok, "{plural}: {}", found.stdout);
    }
    let reads = [
        "/api/v1/secrets/default%2Ftreasure",
        "/api/v1/secrets/treasure?fieldSelector=metadata.namespace=mine",
        "/api/v1/namespaces/mine/secrets/..%2Fdefault%2Ftreasure",
        "/api/v1/namespaces/mine/secrets/../../default/secrets/treasure",
        "/api/v1/namespaces/mine/secrets/%2e%2e",
        "/api/v1/namespaces/mine%2F..%2Fdefault/secrets/treasure",
        "/api/v1/namespaces/mine/secrets/treasure%252F",
        "/api/v1/namespaces/default/secrets/treasure",
    ];
    for path in reads {
        let answer = user.curl(path, &[]);
        assert!(matches!(answer.code, 400 | 403 | 404), "{path}: {answer:?}");
        assert!(!answer.body.contains("\"kind\":\"Secret\""), "{path}: {answer:?}");
    }
    let admin = cluster.curl("/api/v1/secrets/default%2Ftreasure", &[]);
    assert!(admin.contains("\"code\":404"), "{admin}");
}
