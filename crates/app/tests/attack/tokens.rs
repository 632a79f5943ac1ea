//! Tokens, Secrets and labels that promise more than they keep.

use crate::control_plane::Cluster;
use crate::user::User;

/// A pod's name lends weight to a token: whoever checks it believes that the account runs there.
#[test]
fn a_token_is_bound_to_a_pod_of_its_own_account() {
    let Some(cluster) = Cluster::start(0) else { return };
    cluster.ok(&["create", "namespace", "mine"]);
    let rule = r#"{apiGroups: [""], resources: [serviceaccounts/token], verbs: [create]}"#;
    let user = User::new(&cluster, "mine", "issuer", &[rule]);
    let pod = |name: &str, account: &str| {
        format!(
            "---\n{{apiVersion: v1, kind: Pod, metadata: {{name: {name}, namespace: mine}}, \
                 spec: {{serviceAccountName: {account}, containers: [{{name: c, image: x}}]}}}}\n"
        )
    };
    cluster.ok(&["create", "serviceaccount", "a", "-n", "mine"]);
    cluster.ok(&["create", "serviceaccount", "b", "-n", "mine"]);
    let path = cluster.file("pods.yaml", &(pod("of-a", "a") + &pod("of-b", "b")));
    cluster.ok(&["apply", "-f", &path]);
    let ask = |account: &str, meta: &str, pod: &str| {
        let body = format!(
            r#"{{"metadata": {{{meta}}}, "spec": {{"boundObjectRef": {{"apiVersion": "v1", "kind": "Pod", "name": "{pod}"}}}}}}"#
        );
        user.post(&format!("/api/v1/namespaces/mine/serviceaccounts/{account}/token"), &body)
    };
    assert_eq!(ask("a", "", "of-a").code, 201);
    let refusal = ask("a", "", "of-b");
    assert_eq!(refusal.code, 400, "{refusal:?}");
    assert!(
        refusal.body.contains("to pod running with different serviceaccount name"),
        "{refusal:?}"
    );
    assert_eq!(ask("a", r#""name": "b""#, "of-a").code, 422);
    assert_eq!(ask("a", r#""namespace": "default""#, "of-a").code, 422);
    assert_eq!(ask("a", r#""uid": "0""#, "of-a").code, 409);
    assert_eq!(ask("a", "", "gone").code, 404);
}

#[test]
fn an_account_that_lists_its_secrets_lends_no_others() {
    let Some(cluster) = Cluster::start(0) else { return };
    cluster.ok(&["create", "namespace", "mine"]);
    let account = "---\n{apiVersion: v1, kind: ServiceAccount, metadata: {name: strict, namespace: mine, annotations: \
                   {kubernetes.io/enforce-mountable-secrets: \"true\"}}, secrets: [{name: own}]}";
    let path = cluster.file("account.yaml", account);
    cluster.ok(&["apply", "-f", &path]);
    let rule = r#"{apiGroups: [""], resources: [pods], verbs: [create]}"#;
    let user = User::new(&cluster, "mine", "maker", &[rule]);
    let post = |name: &str, secret: &str| {
        let body = format!(
            r#"{{"metadata": {{"name": "{name}"}}, "spec": {{"serviceAccountName": "strict", "containers":
            [{{"name": "c", "image": "x", "envFrom": [{{"secretRef": {{"name": "{secret}"}}}}]}}]}}}}"#
        );
        user.post("/api/v1/namespaces/mine/pods", &body)
    };
    assert_eq!(post("first", "own").code, 201);
    let refusal = post("second", "treasure");
    assert_eq!(refusal.code, 403, "{refusal:?}");
    assert!(
        refusal.body.contains("service account strict does not reference that secret"),
        "{refusal:?}"
    );
}
