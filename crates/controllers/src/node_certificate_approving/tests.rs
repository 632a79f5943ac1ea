//! A request and who is around in, whether it is approved out.

use std::sync::Arc;

use api::certificates::CertificateSigningRequest;
use api::certificates::certificate_signing_request::{AlternativeNames, Asked};
use api::core::node::{Node, NodeView};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use proptest::prelude::*;
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

fn texts(all: &[String]) -> Vec<&str> {
    all.iter().map(String::as_str).collect()
}

/// Names and addresses that nodes say they have, in any mixture: some of them are somebody else's.
fn anything() -> impl Strategy<Value = Vec<String>> {
    let text = prop::sample::select(vec![
        "web",
        "other",
        "third",
        "kubernetes",
        "localhost",
        "*.web",
        "a.svc",
        "192.0.2.1",
        "192.0.2.7",
        "192.0.2.9",
        "10.96.0.1",
        "127.0.0.1",
        "0.0.0.0",
        "224.0.0.1",
    ]);
    prop::collection::vec(text.prop_map(str::to_owned), 0..6)
}

proptest! {
    /// Whatever nodes say of themselves, none serves under what another node, a Service or an API
    /// server has, or under what means every machine.
    #[test]
    fn no_node_gets_what_somebody_else_has(
        own in anything(),
        others in anything(),
        dns in anything(),
        addresses in prop::collection::vec(any::<[u8; 4]>(), 0..3),
        named in anything(),
    ) {
        let taken = ["10.96.0.1", "192.0.2.9"].map(|it| it.parse().unwrap());
        let around = Surroundings {
            nodes: vec![node("web", &texts(&own)), node("other", &texts(&others))],
            taken: taken.into(),
        };
        let parsed = named.iter().filter_map(|it| it.parse::<std::net::IpAddr>().ok());
        let addresses: Vec<_> = addresses.into_iter().map(Into::into).chain(parsed).collect();
        let names = AlternativeNames { dns, addresses, ..AlternativeNames::default() };
        let asked = Asked { names, ..Asked::default() };
        let found = check_names(&asked, &around.nodes[0], &around);
        prop_assert_eq!(&found, &check_names(&asked, &around.nodes[0], &around));
        if found.is_err() {
            return Ok(());
        }
        for name in &asked.names.dns {
            prop_assert!(name == "web" || own.contains(name), "{name}");
            prop_assert!(name != "other" && !others.contains(name), "{name}");
            prop_assert!(!name.contains('*') && !name.ends_with(".svc"), "{name}");
            prop_assert!(name != "kubernetes" && name != "localhost", "{name}");
        }
        for address in &asked.names.addresses {
            prop_assert!(own.contains(&address.to_string()), "{address}");
            prop_assert!(!others.contains(&address.to_string()), "{address}");
            prop_assert!(!around.taken.contains(address), "{address}");
            let is_nobodys =
                address.is_loopback() || address.is_unspecified() || address.is_multicast();
            prop_assert!(!is_nobodys, "{address}");
        }
    }

    /// What is decided is not looked at again, and people's requests never are.
    #[test]
    fn only_open_requests_of_nodes_are_decided(
        user in prop::sample::select(vec!["admin", "system:node:", "system:node:web", "web"]),
        is_node: bool,
        signer in prop::sample::select(vec![KUBELET_SERVING, NODE_COMPONENT, "a.b/c"]),
        condition in prop::sample::select(vec!["", "Approved", "Denied", "Other"]),
    ) {
        let groups: &[&str] = if is_node { &["system:nodes"] } else { &["system:masters"] };
        let request = request(user, groups, signer, condition);
        let is_open = signer != "a.b/c" && matches!(condition, "" | "Other");
        prop_assert_eq!(is_of_node(&request), is_open);
        let verdict = plan(&request, &around());
        prop_assert_eq!(&verdict, &plan(&request, &around()));
        let is_nodes = is_node && user.starts_with("system:node:");
        prop_assert!(is_nodes || verdict == Verdict::NotOurs, "{verdict:?}");
    }
}
