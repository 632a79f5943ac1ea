//! A request for a certificate by node `web` in, verdict out.

use api::ApiObject;
use api::certificates::{CertificateSigningRequest, PodCertificateRequest};
use apimachinery::User;
use k8s_openapi::ByteString;
use serde_json::{Value, json};

use super::super::NodeRestriction;
use crate::attributes::Operation;
use crate::chain::Plugin as _;
use crate::plugins::fixture::{Case, Nobody, Objects, decode, now};

/// With `system:node:web` as its common name.
const OF_WEB: &str = include_str!("../../certificate_subject_restriction/request-of-nodes.pem");

fn verdict(
    node: &str,
    (operation, resource): (Operation, &str),
    objects: &Objects,
    object: &dyn ApiObject,
) -> String {
    let user = User::new(format!("system:node:{node}"), &["system:nodes"]);
    let case = Case { name: "r", ..Case::of(operation, resource, &user) };
    case.with((objects, &Nobody), (Some(object), None), |context| {
        let refusal = now(NodeRestriction.admit(context)).err();
        refusal.map_or_else(|| "ok".to_owned(), |it| it.message().to_owned())
    })
}

#[test]
fn a_node_asks_for_certificates_under_its_own_name() {
    let check = |node: &str, signer: &str, text: &str, expected: &str| {
        let mut request: CertificateSigningRequest =
            decode(&json!({"spec": {"signerName": signer, "request": ""}}));
        request.spec.request = ByteString(text.as_bytes().to_vec());
        let at = (Operation::Create, "certificates.k8s.io/certificatesigningrequests");
        let said = verdict(node, at, &Objects::default(), &request);
        assert!(said.ends_with(expected), "{said}");
    };
    for signer in ["kubernetes.io/kubelet-serving", "kubernetes.io/kube-apiserver-client-kubelet"] {
        check("web", signer, OF_WEB, "ok");
        check("other", signer, OF_WEB, "can only create a node CSR with CN=system:node:other");
        let why = "unable to parse csr: PEM block type must be CERTIFICATE REQUEST";
        check("web", signer, "", why);
    }
    check("other", "example.com/a", OF_WEB, "ok");
}

/// A pod of the node, with its account.
fn objects(pod: Value) -> Objects {
    let mut own = json!({
        "metadata": {"namespace": "ns", "name": "own", "uid": "pod-uid"},
        "spec": {"nodeName": "web", "serviceAccountName": "robot", "containers": []},
    });
    for (key, value) in pod.as_object().into_iter().flatten() {
        *own.pointer_mut(key).expect("a field") = value.clone();
    }
    let account = json!({"metadata": {"namespace": "ns", "name": "robot", "uid": "robot-uid"}});
    Objects::default()
        .with("nodes", &json!({"metadata": {"name": "web", "uid": "node-uid"}}))
        .with("pods", &own)
        .with("serviceaccounts", &account)
}

#[test]
fn a_node_asks_for_certificates_of_the_pods_that_run_on_it() {
    let check = |objects: Objects, changes: Value, expected: &str| {
        let mut spec = json!({
            "signerName": "example.com/a", "nodeName": "web", "nodeUID": "node-uid",
            "podName": "own", "podUID": "pod-uid",
            "serviceAccountName": "robot", "serviceAccountUID": "robot-uid", "stubPKCS10Request": "",
        });
        spec.as_object_mut().unwrap().extend(changes.as_object().cloned().unwrap_or_default());
        let request: PodCertificateRequest = decode(&json!({"spec": spec}));
        let at = (Operation::Create, "certificates.k8s.io/podcertificaterequests");
        let said = verdict("web", at, &objects, &request);
        assert!(said.ends_with(expected), "{said}");
    };
    let plain = || objects(json!({}));
    check(plain(), json!({}), "ok");
    check(
        plain(),
        json!({"nodeName": "other"}),
        "PodCertificateRequest.Spec.NodeName=\"other\", which is not the requesting node \"web\"",
    );
    check(plain(), json!({"nodeUID": "x"}), "inconsistent with the running node (\"node-uid\")");
    check(plain(), json!({"podName": "gone"}), "pods \"gone\" not found");
    check(plain(), json!({"podUID": "x"}), "(\"x\") which differs from running pod \"pod-uid\"");
    check(
        objects(json!({"/spec/nodeName": "other"})),
        json!({}),
        "pod \"ns/own\" is not running on node \"web\" named in the PodCertificateRequest",
    );
    check(
        objects(json!({"/metadata": {
            "namespace": "ns", "name": "own", "uid": "pod-uid",
            "annotations": {"kubernetes.io/config.mirror": "a"},
        }})),
        json!({}),
        "pod \"ns/own\" is a mirror pod",
    );
    check(
        plain(),
        json!({"serviceAccountName": "default"}),
        "contains serviceAccountName (\"default\") that differs from running pod (\"robot\")",
    );
    check(
        plain(),
        json!({"serviceAccountUID": "x"}),
        "names service account UID \"x\", which differs from the running service account (\"robot-uid\")",
    );
    let request: PodCertificateRequest = decode(&json!({"spec": {}}));
    let at = (Operation::Update, "certificates.k8s.io/podcertificaterequests");
    let said = verdict("web", at, &plain(), &request);
    assert!(said.ends_with("unexpected operation \"UPDATE\""), "{said}");
}
