//! The API as each part of a node sees it: a client per part, which is that part and nobody else.

use std::sync::Arc;

use apimachinery::User;
use apiserver::Server;
use client::Client;

const GROUP_NODES: &str = "system:nodes";
pub(crate) const PROXY: &str = "system:kube-proxy";
/// Upstream's role for DNS is bound to this account.
pub(crate) const DNS: &str = "system:serviceaccount:kube-system:coredns";
/// Follows nodes, pods, namespaces and policies.
pub(crate) const NETWORK: &str = "xebec:network";

#[derive(Clone)]
pub(crate) struct Clients {
    /// As the node.
    pub(crate) kubelet: Client,
    pub(crate) proxy: Client,
    pub(crate) dns: Client,
    pub(crate) network: Client,
}

impl Clients {
    /// Of a server in this process.
    pub(crate) fn in_process(server: &Arc<Server>, node_name: &str) -> Self {
        let service_accounts = ["system:serviceaccounts", "system:serviceaccounts:kube-system"];
        let kubelet = User::new(user_of(node_name), &[GROUP_NODES]);
        Self {
            kubelet: server.client(kubelet, "kubelet"),
            proxy: server.client(User::new(PROXY, &[]), "kube-proxy"),
            dns: server.client(User::new(DNS, &service_accounts), "coredns"),
            network: server.client(User::new(NETWORK, &[]), "xebec-network"),
        }
    }
}

/// Who a node is to the API.
pub(crate) fn user_of(node_name: &str) -> String {
    format!("system:node:{node_name}")
}
