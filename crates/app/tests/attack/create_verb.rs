//! Where an object comes into being the verb `create` is needed, whatever the door.

use crate::control_plane::Cluster;
use crate::user::User;

const POD: &str = r#"{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "made"}, "spec": {"hostPID": true,
        "containers": [{"name": "c", "image": "x", "securityContext": {"privileged": true}}]}}"#;
const LEASE: &str = r#"{"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "made"}, "spec": {}}"#;

/// A right to patch pods made a privileged pod.
#[test]
fn what_patch_and_update_may_change_they_may_not_create() {
    let Some(cluster) = Cluster::start(0) else { return };
    cluster.ok(&["create", "namespace", "mine"]);
    let writer = r#"{apiGroups: ["", "coordination.k8s.io"], resources: [pods, configmaps, leases], verbs: [get, patch, update]}"#;
    let user = User::new(&cluster, "mine", "writer", &[writer]);
    let named = r#"{apiGroups: [""], resources: [configmaps], resourceNames: [allowed], verbs: [create, patch]}"#;
    let applier = User::new(&cluster, "mine", "applier", &[named]);
    let map = |name: &str| {
        format!(
            r#"{{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {{"name": "{name}"}}, "data": {{"a": "b"}}}}"#
        )
    };
    let send = |user: &User, method: &str, kind: &str, path: &str, body: &str| {
        user.curl(path, &["-X", method, "-H", &format!("Content-Type: {kind}"), "-d", body])
    };
    let (apply, plain) = ("application/apply-patch+yaml", "application/json");
    let core = "/api/v1/namespaces/mine";
    let leases = "/apis/coordination.k8s.io/v1/namespaces/mine/leases/made";
    for dry in ["", "&dryRun=All"] {
        let attempts = [
            (
                "PATCH",
                apply,
                format!("{core}/pods/made?fieldManager=x{dry}"),
                POD.to_owned(),
                "pods",
            ),
            (
                "PATCH",
                apply,
                format!("{core}/configmaps/made?fieldManager=x{dry}"),
                map("made"),
                "configmaps",
            ),
            ("PUT", plain, format!("{leases}?fieldManager=x{dry}"), LEASE.to_owned(), "leases"),
            ("PATCH", apply, format!("{leases}?fieldManager=x{dry}"), LEASE.to_owned(), "leases"),
        ];
        for (method, kind, path, body, resource) in attempts {
            let answer = send(&user, method, kind, &path, &body);
            assert_eq!(answer.code, 403, "{method} {path}: {answer:?}");
            let expected = format!("cannot create resource \\\"{resource}\\\"");
            assert!(answer.body.contains(&expected), "{method} {path}: {answer:?}");
        }
    }
    for kind in ["pods", "configmaps", "leases"] {
        assert!(!cluster.run(&["get", kind, "made", "-n", "mine"]).is_ok, "{kind}");
    }
    // The name is in the path, so that a right to one name is enough for that one.
    let answer = send(
        &applier,
        "PATCH",
        apply,
        &format!("{core}/configmaps/allowed?fieldManager=x"),
        &map("allowed"),
    );
    assert_eq!(answer.code, 201, "{answer:?}");
    let answer = send(
        &applier,
        "PATCH",
        apply,
        &format!("{core}/configmaps/other?fieldManager=x"),
        &map("other"),
    );
    assert_eq!(answer.code, 403, "{answer:?}");
    // What is there may still be changed.
    let answer = send(
        &user,
        "PATCH",
        apply,
        &format!("{core}/configmaps/allowed?fieldManager=y"),
        &map("allowed"),
    );
    assert_eq!(answer.code, 200, "{answer:?}");
}
