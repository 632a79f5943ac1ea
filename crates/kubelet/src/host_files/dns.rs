//! Name servers and search paths by dnsPolicy and dnsConfig.
//! <https://kubernetes.io/docs/concepts/services-networking/dns-pod-service/>

use std::net::IpAddr;

use k8s_openapi::api::core::v1::{Pod, PodDNSConfigOption};
use node_api::sandboxes::Dns;

/// What resolvers are known to take.
const SERVERS_MAX: usize = 3;
const SEARCHES_MAX: usize = 32;
const SEARCH_LINE_MAX: usize = 2048;
const SEARCH_MAX: usize = 253;

/// `None`: a copy of the node's `/etc/resolv.conf` (dnsPolicy Default without a dnsConfig).
/// `servers` are the cluster's, `node` is what the node's own file says.
pub fn dns(pod: &Pod, servers: &[IpAddr], cluster_domain: &str, node: &Dns) -> Option<Dns> {
    let spec = pod.spec.as_ref()?;
    let is_on_host = super::is_on_host_network(Some(spec));
    let config = spec.dns_config.as_ref();
    let mut dns = match spec.dns_policy.as_deref().unwrap_or("ClusterFirst") {
        "None" => Dns::default(),
        "ClusterFirstWithHostNet" if !servers.is_empty() => {
            cluster_first(pod, servers, cluster_domain, node)
        }
        "ClusterFirst" if !servers.is_empty() && !is_on_host => {
            cluster_first(pod, servers, cluster_domain, node)
        }
        _ if config.is_none() => return None,
        _ => node.clone(),
    };
    if let Some(config) = config {
        let more = config.nameservers.iter().flatten().filter_map(|it| it.parse::<IpAddr>().ok());
        dns.servers.extend(more);
        dns.searches.extend(config.searches.iter().flatten().cloned());
        for option in config.options.iter().flatten() {
            set_option(&mut dns.options, option);
        }
    }
    Some(limited(dns))
}

fn cluster_first(pod: &Pod, servers: &[IpAddr], domain: &str, node: &Dns) -> Dns {
    let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
    let own = [format!("{namespace}.svc.{domain}"), format!("svc.{domain}"), domain.to_owned()];
    Dns {
        servers: servers.to_vec(),
        searches: own.into_iter().chain(node.searches.iter().cloned()).collect(),
        options: vec!["ndots:5".to_owned()],
    }
}

/// The same option again replaces the first.
fn set_option(options: &mut Vec<String>, option: &PodDNSConfigOption) {
    let Some(name) = option.name.as_deref() else { return };
    let text = match option.value.as_deref().filter(|it| !it.is_empty()) {
        Some(value) => format!("{name}:{value}"),
        None => name.to_owned(),
    };
    let name_of = |it: &str| it.split(':').next().unwrap_or_default().to_owned();
    match options.iter_mut().find(|it| name_of(it) == name) {
        Some(option) => *option = text,
        None => options.push(text),
    }
}

fn limited(dns: Dns) -> Dns {
    let mut servers = without_repeats(dns.servers);
    servers.truncate(SERVERS_MAX);
    let mut searches = without_repeats(dns.searches);
    searches.retain(|it| it.len() <= SEARCH_MAX);
    searches.truncate(SEARCHES_MAX);
    while searches.join(" ").len() > SEARCH_LINE_MAX {
        searches.pop();
    }
    Dns { servers, searches, options: dns.options }
}

fn without_repeats<T: PartialEq>(items: Vec<T>) -> Vec<T> {
    let mut kept = Vec::with_capacity(items.len());
    for item in items {
        if !kept.contains(&item) {
            kept.push(item);
        }
    }
    kept
}
