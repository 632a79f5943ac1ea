//! Requests for certificates: who asks, who decides, who signs.

use serde_json::{Value, json};

use crate::harness::wire::{ADMIN, Connection, Site};

const PATH: &str = "/apis/certificates.k8s.io/v1/certificatesigningrequests";

fn example(kind: &str) -> Value {
    let text = match kind {
        "csr" => {
            include_str!("../../../api/src/certificates/certificate_signing_request/example.json")
        }
        _ => include_str!("../../../api/src/certificates/pod_certificate_request/example.json"),
    };
    serde_json::from_str(text).expect("an object")
}

/// May make and change requests, and approve for one signer.
async fn approver(admin: &mut Connection) {
    let group = "certificates.k8s.io";
    let rules = json!([
        {"apiGroups": [group], "verbs": ["*"], "resources": [
            "certificatesigningrequests", "certificatesigningrequests/approval",
            "certificatesigningrequests/status", "podcertificaterequests", "podcertificaterequests/status",
        ]},
        {"apiGroups": [group], "verbs": ["approve"], "resources": ["signers"], "resourceNames": ["example.org/*"]},
    ]);
    let rbac = "/apis/rbac.authorization.k8s.io/v1";
    let role = json!({"metadata": {"name": "approver"}, "rules": rules});
    assert_eq!(admin.call("POST", &format!("{rbac}/clusterroles"), &role).await.0, 201);
    let binding = json!({
        "metadata": {"name": "approver"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "approver"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "alice"}],
    });
    assert_eq!(admin.call("POST", &format!("{rbac}/clusterrolebindings"), &binding).await.0, 201);
}

#[tokio::test]
async fn who_asks_is_who_is_authenticated_and_decisions_have_times() {
    let site = Site::start().await;
    let mut admin = site.connect(ADMIN).await;
    approver(&mut admin).await;
    let mut alice = site.connect(Some(("alice", &["team"]))).await;
    let mut request = example("csr");
    request["spec"]["username"] = json!("root");
    let (code, made) = alice.call("POST", PATH, &request).await;
    assert_eq!(code, 201, "{made}");
    assert_eq!(made["spec"]["username"], "alice");
    assert_eq!(made["spec"]["groups"], json!(["team", "system:authenticated"]));

    let mut approved = made.clone();
    approved["status"] = json!({
        "conditions": [{"type": "Approved", "status": "True", "reason": "Known"}], "certificate": "YQ==",
    });
    let (code, approved) = alice.call("PUT", &format!("{PATH}/web/approval"), &approved).await;
    assert_eq!(code, 200, "{approved}");
    assert_eq!(approved["status"]["certificate"], Value::Null);
    let condition = &approved["status"]["conditions"][0];
    assert!(condition["lastUpdateTime"].is_string() && condition["lastTransitionTime"].is_string());

    // Who may approve does not sign.
    let certificate = include_bytes!("../../../api/testdata/authority.pem");
    let certificate = k8s_openapi::ByteString(certificate.to_vec());
    let mut signed = approved.clone();
    signed["status"]["certificate"] = serde_json::to_value(&certificate).expect("bytes");
    let status = format!("{PATH}/web/status");
    let (code, refused) = alice.call("PUT", &status, &signed).await;
    assert_eq!(code, 403, "{refused}");
    let why = "user not permitted to sign requests with signerName \"example.org/signer\"";
    assert!(refused["message"].as_str().is_some_and(|it| it.ends_with(why)), "{refused}");
    let (code, signed) = admin.call("PUT", &status, &signed).await;
    assert_eq!(code, 200, "{signed}");
    let (_, listed) = admin
        .call("GET", &format!("{PATH}?fieldSelector=spec.signerName%3Da.org/b"), &Value::Null)
        .await;
    assert_eq!(listed["items"], json!([]));
}

#[tokio::test]
async fn only_who_may_sign_says_what_came_of_a_pods_request() {
    let site = Site::start().await;
    let mut admin = site.connect(ADMIN).await;
    approver(&mut admin).await;
    let mut alice = site.connect(Some(("alice", &[]))).await;
    let path = "/apis/certificates.k8s.io/v1beta1/namespaces/default/podcertificaterequests";
    let (code, made) = alice.call("POST", path, &example("pod")).await;
    assert_eq!(code, 201, "{made}");
    let mut denied = made;
    denied["status"]["conditions"] = json!([{
        "type": "Denied", "status": "True", "reason": "Unknown", "message": "",
        "lastTransitionTime": "2024-01-02T03:04:05Z",
    }]);
    let status = format!("{path}/web/status");
    let (code, refused) = alice.call("PUT", &status, &denied).await;
    assert_eq!(code, 422, "{refused}");
    assert_eq!(refused["details"]["name"], "web");
    let why = "User \"alice\" is not permitted to \"sign\" for signer \"example.org/signer\"";
    assert!(refused["message"].as_str().is_some_and(|it| it.contains(why)), "{refused}");
    assert_eq!(admin.call("PUT", &status, &denied).await.0, 200);
}
