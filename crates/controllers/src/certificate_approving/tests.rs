//! A request in, the ways in which it may be approved out.

use api::certificates::CertificateSigningRequest;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use proptest::prelude::*;
use serde_json::json;

use super::plan::plan;

const NODE: &str = include_str!("../../../api/testdata/request.pem");
const KUBELET: &str = "kubernetes.io/kube-apiserver-client-kubelet";

/// Of the node `web`, by this user.
fn check(user: &str, signer: &str, usages: &[&str], condition: &str, expected: &[&str]) {
    let conditions = match condition {
        "" => json!([]),
        type_ => json!([{"type": type_, "status": "True"}]),
    };
    let request: CertificateSigningRequest = serde_json::from_value(json!({
        "metadata": {"name": "one"},
        "spec": {
            "request": STANDARD.encode(NODE.as_bytes()),
            "signerName": signer,
            "usages": usages,
            "username": user,
        },
        "status": {"conditions": conditions},
    }))
    .unwrap();
    let found: Vec<&str> = plan(&request).iter().map(|it| it.subresource).collect();
    assert_eq!(found, expected, "{user} {signer} {usages:?} {condition}");
    assert_eq!(plan(&request), plan(&request));
}

const CLIENT: &[&str] = &["digital signature", "client auth"];

#[test]
fn a_kubelet_renews_its_own_certificate_or_somebody_asks_for_it() {
    let both = &["selfnodeclient", "nodeclient"];
    check("system:node:web", KUBELET, CLIENT, "", both);
    check("bootstrap", KUBELET, CLIENT, "", &["nodeclient"]);
}

#[test]
fn others_wait_for_a_person() {
    check("system:node:web", "kubernetes.io/kube-apiserver-client", CLIENT, "", &[]);
    check("system:node:web", "kubernetes.io/kubelet-serving", CLIENT, "", &[]);
    check("system:node:web", KUBELET, &["server auth", "digital signature"], "", &[]);
    check("system:node:web", KUBELET, CLIENT, "Denied", &[]);
    check("system:node:web", KUBELET, CLIENT, "Approved", &[]);
}

proptest! {
    #[test]
    fn what_was_decided_is_not_approved_again_and_only_kubelets_are(
        is_own: bool,
        signer in prop::sample::select(vec![KUBELET, "kubernetes.io/kubelet-serving", "a.b/c"]),
        condition in prop::sample::select(vec!["", "Approved", "Denied", "Other"]),
    ) {
        let user = if is_own { "system:node:web" } else { "bootstrap" };
        let is_open = signer == KUBELET && matches!(condition, "" | "Other");
        let expected: &[&str] = match (is_open, is_own) {
            (false, _) => &[],
            (true, true) => &["selfnodeclient", "nodeclient"],
            (true, false) => &["nodeclient"],
        };
        check(user, signer, CLIENT, condition, expected);
    }
}
