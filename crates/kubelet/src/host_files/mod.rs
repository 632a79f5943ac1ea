//! What `/etc/resolv.conf`, `/etc/hosts` and the host name of a pod say. Pure.
//!
//! `/etc/hosts` is rendered here alone, since it has the pod's address and aliases, which no runtime
//! is told; the kubelet writes and mounts it. Of `/etc/resolv.conf` only the settings are chosen
//! here; its text is `node_api::resolv_conf`'s, and the sandbox's maker writes it.

mod dns;
mod hosts;
#[cfg(test)]
mod tests;

use k8s_openapi::api::core::v1::{Pod, PodSpec};

pub use dns::dns;
pub use hosts::hosts;

/// What the kernel lets a host name be long, and what a label of DNS may be.
const HOST_NAME_MAX: usize = 64;
const LABEL_MAX: usize = 63;

#[derive(Debug, thiserror::Error)]
#[error(
    "failed to construct FQDN from Pod hostname and cluster domain, FQDN {fqdn} is too long \
     ({HOST_NAME_MAX} characters is the max, {} characters requested)", fqdn.len()
)]
pub struct Error {
    fqdn: String,
}

/// The host name inside, without a domain; the node's with the host's network.
pub fn hostname(pod: &Pod, node_name: &str) -> String {
    let spec = pod.spec.as_ref();
    let chosen = |it: Option<&String>| it.filter(|it| !it.is_empty()).cloned();
    if is_on_host_network(spec) {
        return node_name.to_owned();
    }
    let own = chosen(spec.and_then(|it| it.hostname_override.as_ref()))
        .or_else(|| chosen(spec.and_then(|it| it.hostname.as_ref())));
    own.unwrap_or_else(|| shortened(pod.metadata.name.as_deref().unwrap_or_default()))
}

/// The host name that the sandbox gets: with `setHostnameAsFQDN`, with its domain.
pub fn sandbox_hostname(pod: &Pod, node_name: &str, cluster_domain: &str) -> Result<String, Error> {
    let hostname = hostname(pod, node_name);
    let is_qualified = pod.spec.as_ref().and_then(|it| it.set_hostname_as_fqdn).unwrap_or_default();
    let Some(domain) = domain(pod, cluster_domain).filter(|_| is_qualified) else {
        return Ok(hostname);
    };
    let fqdn = format!("{hostname}.{domain}");
    if fqdn.len() > HOST_NAME_MAX { Err(Error { fqdn }) } else { Ok(fqdn) }
}

/// `SUBDOMAIN.NAMESPACE.svc.DOMAIN`, if the pod has a subdomain.
fn domain(pod: &Pod, cluster_domain: &str) -> Option<String> {
    let spec = pod.spec.as_ref()?;
    let is_overridden = spec.hostname_override.as_ref().is_some_and(|it| !it.is_empty());
    if is_overridden || is_on_host_network(Some(spec)) {
        return None;
    }
    let subdomain = spec.subdomain.as_deref().filter(|it| !it.is_empty())?;
    let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
    Some(format!("{subdomain}.{namespace}.svc.{cluster_domain}"))
}

fn is_on_host_network(spec: Option<&PodSpec>) -> bool {
    spec.and_then(|it| it.host_network).unwrap_or_default()
}

/// A pod's name may be longer than a host name.
fn shortened(name: &str) -> String {
    // Names are ASCII.
    let name = name.get(..LABEL_MAX).unwrap_or(name);
    name.trim_end_matches(['-', '.']).to_owned()
}
