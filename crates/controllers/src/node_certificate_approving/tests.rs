//! A request and who is around in, whether it is approved out.

use std::sync::Arc;

use api::certificates::CertificateSigningRequest;
use api::certificates::certificate_signing_request::{AlternativeNames, Asked};
use api::core::node::{Node, NodeView};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::json;

use super::plan::{Surroundings, Verdict, check_names, is_of_node, plan};
use crate::certificates::{KUBELET_SERVING, NODE_COMPONENT, check_node_component};

/// Of the node `web`, without other names.
const REQUEST: &str = include_str!("../../../api/testdata/request.pem");

fn node(name: &str, addresses: &[&str]) -> Arc<NodeView> {
    let type_of = |it: &str| if it.contains('.') { "InternalIP" } else { "Hostname" };
    let addresses: Vec<_> =
        addresses.iter().map(|it| json!({"type": type_of(it), "address": it})).collect();
    let node: Node = serde_json::from_value(
        json!({"metadata": {"name": name}, "status": {"addresses": addresses}}),
    )
    .unwrap();
    Arc::new(NodeView::from(&node))
}

fn around() -> Surroundings {
    Surroundings {
        nodes: vec![
            node("web", &["192.0.2.7", "10.96.0.1", "192.0.2.1", "127.0.0.1", "web", "kubernetes"]),
            node("other", &["192.0.2.1", "other"]),
        ],
        taken: ["10.96.0.1", "192.0.2.9"].map(|it| it.parse().unwrap()).into(),
    }
}

#[test]
fn a_node_serves_under_its_own_names_and_addresses_alone() {
    let check = |names: &[&str], addresses: &[&str], expected: &str| {
        let around = around();
        let names = AlternativeNames {
            dns: names.iter().map(|it| (*it).to_owned()).collect(),
            addresses: addresses.iter().map(|it| it.parse().unwrap()).collect(),
            ..AlternativeNames::default()
        };
        let asked = Asked { names, ..Asked::default() };
        let found = check_names(&asked, &around.nodes[0], &around);
        assert_eq!(found.err().unwrap_or_default(), expected, "{asked:?}");
    };
    check(&["web"], &["192.0.2.7"], "");
    check(&[], &["192.0.2.8"], "the Node does not say that it has the address 192.0.2.8");
    check(&["elsewhere"], &[], "the Node does not say that it is called elsewhere");
    // It says that it has them, and that is a lie.
    check(&[], &["192.0.2.1"], "the address 192.0.2.1 is somebody else's");
    check(&[], &["10.96.0.1"], "the address 10.96.0.1 is somebody else's");
    check(&[], &["127.0.0.1"], "the address 127.0.0.1 is somebody else's");
    check(&["kubernetes"], &[], "the name kubernetes is somebody else's");
    check(&["other"], &[], "the Node does not say that it is called other");
}

fn request(
    user: &str,
    groups: &[&str],
    signer: &str,
    condition: &str,
) -> CertificateSigningRequest {
    let conditions = match condition {
        "" => json!([]),
        type_ => json!([{"type": type_, "status": "True"}]),
    };
    serde_json::from_value(json!({
        "metadata": {"name": "one"},
        "spec": {
            "request": STANDARD.encode(REQUEST.as_bytes()), "signerName": signer,
            "usages": ["digital signature", "server auth"], "username": user, "groups": groups,
        },
        "status": {"conditions": conditions},
    }))
    .unwrap()
}

#[test]
fn what_is_no_nodes_own_is_left_to_people() {
    let web = "system:node:web";
    let check = |user: &str, groups: &[&str], signer: &str, expected: &Verdict| {
        let request = request(user, groups, signer, "");
        assert_eq!(plan(&request, &around()), *expected, "{user} {groups:?} {signer}");
        assert_eq!(plan(&request, &around()), *expected);
    };
    check("admin", &["system:masters"], KUBELET_SERVING, &Verdict::NotOurs);
    check(web, &["system:authenticated"], KUBELET_SERVING, &Verdict::NotOurs);
    check("system:bootstrap:abcdef", &["system:bootstrappers"], NODE_COMPONENT, &Verdict::NotOurs);
    // Without any name to serve under.
    check(web, &["system:nodes"], KUBELET_SERVING, &Verdict::NotOurs);
    // The kubelet is not a component of itself.
    check(web, &["system:nodes"], NODE_COMPONENT, &Verdict::NotOurs);
}

#[test]
fn only_what_is_open_and_for_these_signers_is_looked_at() {
    let is_looked_at = |signer: &str, condition: &str| {
        is_of_node(&request("system:node:web", &["system:nodes"], signer, condition))
    };
    assert!(is_looked_at(KUBELET_SERVING, "") && is_looked_at(NODE_COMPONENT, ""));
    assert!(!is_looked_at("kubernetes.io/kube-apiserver-client", ""));
    assert!(!is_looked_at(NODE_COMPONENT, "Approved") && !is_looked_at(NODE_COMPONENT, "Denied"));
}

#[test]
fn a_component_is_one_of_those_that_nodes_run_on_the_node_that_it_says() {
    const CLIENT: &[&str] = &["client auth", "digital signature"];
    let check = |user: &str, groups: &[&str], usages: &[&str], names: &[&str], expected: &str| {
        let owned = |all: &[&str]| all.iter().map(|it| (*it).to_owned()).collect::<Vec<_>>();
        let names = AlternativeNames { dns: owned(names), ..AlternativeNames::default() };
        let asked = Asked { common_name: user.to_owned(), organizations: owned(groups), names };
        let found = check_node_component(&asked, &owned(usages));
        assert_eq!(found.map_or_else(|why| why, str::to_owned), expected);
    };
    check("system:kube-proxy", &["xebec:node:b"], CLIENT, &[], "b");
    check("xebec:network", &["xebec:node:b"], CLIENT, &[], "b");
    let group = "subject organization is not xebec:node:<name>";
    check("xebec:network", &[], CLIENT, &[], group);
    check("xebec:network", &["xebec:node:"], CLIENT, &[], group);
    check("xebec:network", &["system:masters"], CLIENT, &[], group);
    check("xebec:network", &["xebec:node:b", "system:masters"], CLIENT, &[], group);
    let name = "subject common name is none of system:kube-proxy, \
                system:serviceaccount:kube-system:coredns, xebec:network";
    check("system:kube-scheduler", &["xebec:node:b"], CLIENT, &[], name);
    let san = "subjectAltNames are not allowed";
    check("xebec:network", &["xebec:node:b"], CLIENT, &["kubernetes"], san);
    let server: &[&str] = &["server auth", "digital signature"];
    let usage = "usages did not match [client auth digital signature key encipherment]";
    check("xebec:network", &["xebec:node:b"], server, &[], usage);
}
