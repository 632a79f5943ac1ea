//! The text of `/etc/hosts`.

use std::net::IpAddr;

use k8s_openapi::api::core::v1::{HostAlias, Pod};

const MANAGED: &str = "# Kubernetes-managed hosts file.
127.0.0.1\tlocalhost
::1\tlocalhost ip6-localhost ip6-loopback
fe00::0\tip6-localnet
fe00::0\tip6-mcastprefix
fe00::1\tip6-allnodes
fe00::2\tip6-allrouters
";
const MANAGED_ON_HOST: &str = "# Kubernetes-managed hosts file (host network).\n";

/// With the host's network a copy of the node's file, `node_hosts`. Aliases come last.
pub fn hosts(pod: &Pod, pod_ips: &[IpAddr], cluster_domain: &str, node_hosts: &str) -> String {
    let spec = pod.spec.as_ref();
    let aliases = spec.and_then(|it| it.host_aliases.as_deref()).unwrap_or_default();
    let text = if super::is_on_host_network(spec) {
        format!("{MANAGED_ON_HOST}{node_hosts}")
    } else {
        let hostname = super::hostname(pod, "");
        let names = match super::domain(pod, cluster_domain) {
            Some(domain) => format!("{hostname}.{domain}\t{hostname}"),
            None => hostname,
        };
        let own = pod_ips.iter().map(|it| format!("{it}\t{names}\n"));
        format!("{MANAGED}{}", own.collect::<String>())
    };
    text + &lines(aliases)
}

fn lines(aliases: &[HostAlias]) -> String {
    if aliases.is_empty() {
        return String::new();
    }
    let line = |it: &HostAlias| {
        let names = it.hostnames.as_deref().unwrap_or_default().join("\t");
        format!("{}\t{names}\n", it.ip)
    };
    let lines: String = aliases.iter().map(line).collect();
    format!("\n# Entries added by HostAliases.\n{lines}")
}
