//! Ports of its node that a pod takes: which, and whether two pods can have theirs at once. Pure.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::PodSpec;

use super::PodSpecView;

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct HostPort {
    pub protocol: String,
    pub port: i32,
    /// `0.0.0.0` takes the port on every address.
    pub address: String,
}

impl HostPort {
    const ANY: &'static str = "0.0.0.0";

    fn new(protocol: &str, port: i32, address: &str) -> Self {
        let or =
            |text: &str, default: &str| if text.is_empty() { default } else { text }.to_owned();
        Self { protocol: or(protocol, "TCP"), port, address: or(address, Self::ANY) }
    }

    pub fn conflicts_with(&self, other: &Self) -> bool {
        self.port == other.port
            && self.protocol == other.protocol
            && (self.address == other.address
                || self.address == Self::ANY
                || other.address == Self::ANY)
    }
}

/// Of the containers that run as long as the pod does.
pub fn host_ports(spec: &PodSpec) -> BTreeSet<HostPort> {
    let sidecars = spec.init_containers.iter().flatten();
    let sidecars = sidecars.filter(|it| it.restart_policy.as_deref() == Some("Always"));
    let ports = spec.containers.iter().chain(sidecars).flat_map(|it| it.ports.iter().flatten());
    let text = |it: &Option<String>| it.clone().unwrap_or_default();
    ports
        .filter_map(|it| {
            let port = it.host_port.filter(|it| *it > 0)?;
            Some(HostPort::new(&text(&it.protocol), port, &text(&it.host_ip)))
        })
        .collect()
}

/// The same of a view.
pub fn host_ports_of_view(spec: &PodSpecView) -> BTreeSet<HostPort> {
    let sidecars = spec.init_containers.iter().filter(|it| it.is_sidecar);
    let ports = spec.containers.iter().chain(sidecars).flat_map(|it| &it.ports);
    ports
        .filter(|it| it.host_port > 0)
        .map(|it| HostPort::new(&it.protocol, it.host_port, &it.host_ip))
        .collect()
}
