//! Nobody grants what they do not have, by whichever write of a role or a binding.

use crate::control_plane::Cluster;
use crate::user::{Answer, User};

const NOT_HELD: &str = "is attempting to grant RBAC permissions not currently held";
const GROUP: &str = "/apis/rbac.authorization.k8s.io/v1";

/// mallory may write every role and binding of the cluster, and nothing else.
fn mallory(cluster: &Cluster) -> User {
    cluster.ok(&["create", "namespace", "mine"]);
    let rule = r#"{apiGroups: ["rbac.authorization.k8s.io"], resources: ["*"], verbs: [get, list, create, update, patch]}"#;
    let user = User::new(cluster, "mine", "mallory", &[rule]);
    let role = cluster.file(
        "writer.yaml",
        &format!("---\n{{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {{name: writer}}, rules: [{rule}]}}"),
    );
    cluster.ok(&["apply", "-f", &role]);
    cluster.ok(&[
        "create",
        "clusterrolebinding",
        "mallory",
        "--clusterrole=writer",
        "--serviceaccount=mine:mallory",
    ]);
    user
}

#[test]
fn roles_and_bindings_give_away_nothing_that_their_writer_lacks() {
    let Some(cluster) = Cluster::start(0) else { return };
    let user = mallory(&cluster);
    let aggregation = "must have cluster-admin privileges to use the aggregationRule";
    let roles = format!("{GROUP}/clusterroles");
    let own =
        r#"{"apiGroups": ["rbac.authorization.k8s.io"], "resources": ["roles"], "verbs": ["get"]}"#;

    // A role of what one has may be made, but not one that gathers others, nor may one become such.
    assert_eq!(
        user.post(&roles, &format!(r#"{{"metadata": {{"name": "small"}}, "rules": [{own}]}}"#))
            .code,
        201
    );
    let selector = |label: &str| {
        format!(r#"{{"clusterRoleSelectors": [{{"matchLabels": {{"{label}": "true"}}}}]}}"#)
    };
    let gather = selector("rbac.authorization.k8s.io/aggregate-to-admin");
    refused(
        &user.post(
            &roles,
            &format!(r#"{{"metadata": {{"name": "big"}}, "aggregationRule": {gather}}}"#),
        ),
        aggregation,
    );
    refused(
        &patch(&user, &format!("{roles}/small"), &format!(r#"{{"aggregationRule": {gather}}}"#)),
        aggregation,
    );

    // One that gathers is not changed to gather something else, and a strong role not labelled into
    // a weak one.
    let other = selector("anything");
    refused(
        &patch(&user, &format!("{roles}/view"), &format!(r#"{{"aggregationRule": {other}}}"#)),
        "clusterroles",
    );
    let label =
        r#"{"metadata": {"labels": {"rbac.authorization.k8s.io/aggregate-to-view": "true"}}}"#;
    refused(&patch(&user, &format!("{roles}/cluster-admin"), label), NOT_HELD);
    refused(&patch(&user, &format!("{roles}/system:node"), label), NOT_HELD);
    assert_eq!(patch(&user, &format!("{roles}/small"), label).code, 200);

    check_bindings(&user);
}

fn patch(user: &User, path: &str, body: &str) -> Answer {
    let kind = "Content-Type: application/merge-patch+json";
    user.curl(path, &["-X", "PATCH", "-H", kind, "-d", body])
}

fn refused(answer: &Answer, expected: &str) {
    assert_eq!(answer.code, 403, "{answer:?}");
    assert!(answer.body.contains(expected), "{answer:?}");
}

fn check_bindings(user: &User) {
    // New subjects of a binding get what its role gives.
    let subjects =
        r#"{"subjects": [{"kind": "ServiceAccount", "name": "mallory", "namespace": "mine"}]}"#;
    refused(
        &patch(user, &format!("{GROUP}/clusterrolebindings/cluster-admin"), subjects),
        NOT_HELD,
    );
    let binding = r#"{"metadata": {"name": "root"}, "roleRef": {"apiGroup": "rbac.authorization.k8s.io",
        "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"kind": "ServiceAccount", "name": "mallory", "namespace": "mine"}]}"#;
    refused(&user.post(&format!("{GROUP}/clusterrolebindings"), binding), NOT_HELD);
    refused(&user.post(&format!("{GROUP}/namespaces/mine/rolebindings"), binding), NOT_HELD);
    let applied = user.curl(
        &format!("{GROUP}/clusterrolebindings/root?fieldManager=x"),
        &[
            "-X",
            "PATCH",
            "-H",
            "Content-Type: application/apply-patch+yaml",
            "-d",
            &binding.replacen(
                '{',
                r#"{"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "#,
                1,
            ),
        ],
    );
    refused(&applied, NOT_HELD);
    assert_eq!(user.curl("/api/v1/namespaces/kube-system/secrets", &[]).code, 403);
}

/// 953 bytes took 18 seconds once, in which nobody else was answered.
#[test]
fn a_role_of_many_combinations_is_judged_at_once() {
    let Some(cluster) = Cluster::start(0) else { return };
    let user = mallory(&cluster);
    let many = |letter: char, n: usize| {
        let texts: Vec<String> = (0..n).map(|it| format!("\"{letter}{it}\"")).collect();
        texts.join(",")
    };
    for n in [40, 400, 4_000] {
        let role = format!(
            r#"{{"metadata": {{"name": "wide{n}"}}, "rules": [{{"apiGroups": [{}], "resources": [{}], "verbs": [{}]}}]}}"#,
            many('g', n),
            many('r', n),
            many('v', n)
        );
        let path = cluster.file("wide.json", &role);
        let made = user.curl(
            &format!("{GROUP}/clusterroles"),
            &["-X", "POST", "-H", "Content-Type: application/json", "-d", &format!("@{path}")],
        );
        assert_eq!(made.code, 403, "{n}: {:.300}", made.body);
        assert!(made.body.contains("not currently held"), "{n}: {:.300}", made.body);
        // Of millions it lists some.
        assert!(made.body.len() < 400_000, "{n}: {}", made.body.len());
    }
}
