//! What `/etc/resolv.conf`, `/etc/hosts` and `/etc/hostname` of a pod say. Pure.

use std::net::IpAddr;

use k8s_openapi::api::core::v1::Pod;
use node_api::sandboxes::Dns;

/// `None`: a copy of the node's `/etc/resolv.conf` (dnsPolicy Default without a dnsConfig).
pub fn dns(pod: &Pod, servers: &[IpAddr], cluster_domain: &str) -> Option<Dns> {
    let _ = (pod, servers, cluster_domain);
    None
}

/// The host name inside, without a domain; the node's with the host's network.
pub fn hostname(pod: &Pod, node_name: &str) -> String {
    let _ = node_name;
    pod.metadata.name.clone().unwrap_or_default()
}

/// `None`: the pod keeps the node's (the host's network without hostAliases).
pub fn hosts(pod: &Pod, pod_ips: &[IpAddr], cluster_domain: &str) -> Option<String> {
    let _ = (pod, pod_ips, cluster_domain);
    None
}
