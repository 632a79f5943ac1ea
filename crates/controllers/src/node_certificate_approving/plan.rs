//! Whether a node may have what it asks for. Pure.
//!
//! What a node says of its addresses is its own word, and a certificate for an address is believed
//! there: so one that somebody else is known to have is never given out.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;

use api::certificates::CertificateSigningRequest;
use api::certificates::certificate_signing_request::{APPROVED, Asked, DENIED, asked};
use api::core::Service;
use api::core::node::NodeView;
use api::discovery::EndpointSlice;

use crate::certificates::{
    KUBELET_SERVING, NODE_COMPONENT, NODE_PREFIX, NODES, check_kubelet_serving,
    check_node_component, has, is_issued, usages,
};

/// Names under which others are asked for: `<service>.<namespace>.svc` and the API server's.
const NAMES_OF_OTHERS: &[&str] = &["kubernetes", "localhost"];
const DOMAINS_OF_OTHERS: &[&str] = &[".svc", ".svc.cluster.local", ".cluster.local", ".localhost"];

/// Who else has what.
pub(super) struct Surroundings {
    pub(super) nodes: Vec<Arc<NodeView>>,
    /// Addresses of Services and of API servers.
    pub(super) taken: BTreeSet<IpAddr>,
}

/// Of what the caches show.
pub(super) fn around(
    nodes: Vec<Arc<NodeView>>,
    services: &[Arc<Service>],
    slices: &[Arc<EndpointSlice>],
) -> Surroundings {
    let addresses = services.iter().filter_map(|it| it.spec.as_ref()?.cluster_ips.clone());
    let servers = slices.iter().filter(|it| is_of_api_servers(it));
    let servers = servers.flat_map(|it| it.endpoints.iter().flatten());
    let taken = addresses.flatten().chain(servers.flat_map(|it| it.addresses.clone()));
    Surroundings { nodes, taken: taken.filter_map(|it| it.parse().ok()).collect() }
}

#[derive(Debug, PartialEq)]
pub(super) enum Verdict {
    NotOurs,
    Wait(String),
    Approve(&'static str),
}

/// Whether anything of it is to be decided here.
pub(super) fn is_of_node(request: &CertificateSigningRequest) -> bool {
    let is_open = !is_issued(request) && !has(request, APPROVED) && !has(request, DENIED);
    let signer = request.spec.signer_name.as_str();
    is_open && matches!(signer, KUBELET_SERVING | NODE_COMPONENT)
}

fn is_of_api_servers(slice: &EndpointSlice) -> bool {
    let service = slice.metadata.labels.iter().flatten();
    let mut service = service.filter(|(key, _)| *key == "kubernetes.io/service-name");
    slice.metadata.namespace.as_deref() == Some("default")
        && service.any(|(_, value)| value == "kubernetes")
}

pub(super) fn plan(request: &CertificateSigningRequest, around: &Surroundings) -> Verdict {
    let user = request.spec.username.as_deref().unwrap_or_default();
    let is_node = request.spec.groups.iter().flatten().any(|it| it == NODES);
    let Some(name) = user.strip_prefix(NODE_PREFIX).filter(|_| is_node) else {
        return Verdict::NotOurs;
    };
    let Ok(asked) = asked(&request.spec.request) else { return Verdict::NotOurs };
    if request.spec.signer_name == NODE_COMPONENT {
        return match check_node_component(&asked, usages(request)) {
            Ok(of) if of == name => Verdict::Approve("Auto approving what runs on the node."),
            _ => Verdict::NotOurs,
        };
    }
    if check_kubelet_serving(&asked, usages(request)).is_err() || asked.common_name != user {
        return Verdict::NotOurs;
    }
    let Some(node) = around.nodes.iter().find(|it| it.name() == name) else {
        return Verdict::Wait(format!("there is no Node {name}"));
    };
    match check_names(&asked, node, around) {
        Ok(()) => Verdict::Approve("Auto approving kubelet serving certificate of the node's own."),
        Err(why) => Verdict::Wait(why),
    }
}

pub(super) fn check_names(
    asked: &Asked,
    node: &NodeView,
    around: &Surroundings,
) -> Result<(), String> {
    let others = || around.nodes.iter().filter(|it| it.name() != node.name());
    let has = |node: &NodeView, text: &str| node.addresses.iter().any(|it| it.address == text);
    for name in &asked.names.dns {
        if name != node.name() && !has(node, name) {
            return Err(format!("the Node does not say that it is called {name}"));
        }
        let is_others = NAMES_OF_OTHERS.contains(&name.as_str())
            || DOMAINS_OF_OTHERS.iter().any(|it| name.ends_with(it))
            || others().any(|it| it.name() == name || has(it, name));
        if is_others || name.contains('*') {
            return Err(format!("the name {name} is somebody else's"));
        }
    }
    for address in &asked.names.addresses {
        let is_same = |it: &NodeView| {
            it.addresses.iter().any(|it| it.address.parse::<IpAddr>().ok() == Some(*address))
        };
        if !is_same(node) {
            return Err(format!("the Node does not say that it has the address {address}"));
        }
        let is_nobodys =
            address.is_loopback() || address.is_unspecified() || address.is_multicast();
        if is_nobodys || around.taken.contains(address) || others().any(|it| is_same(it)) {
            return Err(format!("the address {address} is somebody else's"));
        }
    }
    Ok(())
}
