//! What is kept of each object: what policies ask, and no more.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;

use api::core::namespace::Namespace;
use api::core::node::NodeView;
use api::core::pod::Pod;
use api::discovery::EndpointSlice;
use api::networking::NetworkPolicy;
use api::{Interned, Meta, Resource as _, Stored, View};
use apimachinery::{GroupVersionResource, ObjectKey};
use serde::Deserialize;
use stdx::Cidr;

use super::compile::compile;
use super::model::{self, NamedPort, Policy, Protocol};
use super::state::NameServer;

#[derive(Clone, Debug)]
pub struct PodView {
    pub key: ObjectKey,
    pub pod: model::Pod,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Parts {
    metadata: Metadata,
    spec: Spec,
    status: Status,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Metadata {
    annotations: Option<Annotations>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Annotations {
    #[serde(rename = "kubernetes.io/config.mirror")]
    mirror: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Spec {
    node_name: Option<Interned>,
    host_network: Option<bool>,
    containers: Option<Vec<Container>>,
    init_containers: Option<Vec<Container>>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Container {
    restart_policy: Option<Interned>,
    ports: Option<Vec<Port>>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Port {
    name: Option<Interned>,
    container_port: Option<i32>,
    protocol: Option<Interned>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Status {
    phase: Option<Interned>,
    #[serde(rename = "podIP")]
    pod_ip: Option<String>,
    #[serde(rename = "podIPs")]
    pod_ips: Option<Vec<Address>>,
}

#[derive(Deserialize)]
struct Address {
    ip: Option<String>,
}

impl Spec {
    /// Of containers that run beside each other.
    fn ports(&self) -> Vec<NamedPort> {
        let is_sidecar = |it: &&Container| it.restart_policy.as_deref() == Some("Always");
        let sidecars = self.init_containers.iter().flatten().filter(is_sidecar);
        let all = self.containers.iter().flatten().chain(sidecars);
        let ports = all.flat_map(|it| it.ports.iter().flatten()).filter_map(|it| {
            Some(NamedPort {
                name: it.name.clone().filter(|it| !it.is_empty())?,
                protocol: Protocol::named(it.protocol.as_deref().unwrap_or_default())?,
                number: u16::try_from(it.container_port?).ok()?,
            })
        });
        let mut ports: Vec<_> = ports.collect();
        ports.sort_unstable();
        ports.dedup();
        ports
    }
}

impl Status {
    fn addresses(&self) -> Vec<IpAddr> {
        let many = self.pod_ips.iter().flatten().filter_map(|it| it.ip.as_deref());
        let mut addresses: Vec<IpAddr> = many.filter_map(|it| it.parse().ok()).collect();
        if addresses.is_empty() {
            addresses.extend(self.pod_ip.as_deref().and_then(|it| it.parse::<IpAddr>().ok()));
        }
        addresses
    }
}

impl View for PodView {
    fn resource() -> GroupVersionResource {
        <Pod as View>::resource()
    }

    fn read(stored: &Stored) -> Result<Self, serde_json::Error> {
        let Parts { metadata, spec, status } = serde_json::from_slice(&stored.bytes)?;
        let phase = status.phase.as_deref();
        let pod = model::Pod {
            uid: stored.meta.uid.as_str().into(),
            labels: stored.meta.labels.clone(),
            is_on_host_network: spec.host_network.unwrap_or(false),
            is_mirror: metadata.annotations.is_some_and(|it| it.mirror.is_some()),
            has_ended: matches!(phase, Some("Succeeded" | "Failed")),
            addresses: status.addresses(),
            ports: spec.ports(),
            node: spec.node_name.unwrap_or_default(),
        };
        Ok(Self { key: stored.meta.key.clone(), pod })
    }
}

#[derive(Clone, Debug)]
pub struct PolicyView {
    pub key: ObjectKey,
    pub policy: Policy,
}

impl View for PolicyView {
    fn resource() -> GroupVersionResource {
        <NetworkPolicy as View>::resource()
    }

    fn read(stored: &Stored) -> Result<Self, serde_json::Error> {
        let policy = compile(&NetworkPolicy::decode(&stored.bytes)?);
        Ok(Self { key: stored.meta.key.clone(), policy })
    }
}

#[derive(Clone, Debug)]
pub struct NamespaceView {
    pub meta: Arc<Meta>,
}

impl View for NamespaceView {
    fn resource() -> GroupVersionResource {
        <Namespace as View>::resource()
    }

    fn read(stored: &Stored) -> Result<Self, serde_json::Error> {
        Ok(Self { meta: stored.meta.clone() })
    }
}

/// All by which pods know a node's own processes: what its status says, and the first two addresses
/// of its ranges, which are those of its own links among pods (a tunnel's end, pods' gateway).
pub fn addresses_of(node: &NodeView) -> BTreeSet<IpAddr> {
    let own = node.addresses.iter().filter_map(|it| it.address.parse().ok());
    let ranges = node.pod_cidrs.iter().filter_map(|it| it.parse::<Cidr>().ok());
    own.chain(ranges.flat_map(|it| [it.nth(0), it.nth(1)]).flatten()).collect()
}

/// Namespace and label of the slices in which name servers are that are no pods.
pub(super) const DNS_NAMESPACE: &str = "kube-system";
const SERVICE_NAME: &str = "kubernetes.io/service-name";
const DNS_SERVICE: &str = "kube-dns";

pub fn name_servers<'a>(slices: impl Iterator<Item = &'a EndpointSlice>) -> BTreeSet<NameServer> {
    let is_dns = |it: &&EndpointSlice| {
        let labels = it.metadata.labels.as_ref();
        labels.and_then(|it| it.get(SERVICE_NAME)).is_some_and(|it| it == DNS_SERVICE)
    };
    let servers = slices.filter(is_dns).flat_map(|slice| {
        let ports = slice.ports.iter().flatten().filter_map(|it| {
            Some(NamedPort {
                name: it.name.as_deref().unwrap_or_default().into(),
                protocol: Protocol::named(it.protocol.as_deref().unwrap_or_default())?,
                number: u16::try_from(it.port?).ok()?,
            })
        });
        let ports: Vec<_> = ports.collect();
        let strangers = slice.endpoints.iter().flatten().filter(|it| it.target_ref.is_none());
        let addresses = strangers.flat_map(|it| &it.addresses).filter_map(|it| it.parse().ok());
        let server = |address| NameServer { address, ports: ports.clone() };
        addresses.map(server).collect::<Vec<_>>()
    });
    servers.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn view(object: serde_json::Value) -> PodView {
        let object: Pod = serde_json::from_value(object).unwrap();
        let meta = api::object::meta_of(&object.metadata, Vec::new());
        PodView::read(&Stored::new(meta, object.encode().into())).unwrap()
    }

    #[test]
    fn a_pod_is_its_addresses_and_the_names_of_its_ports() {
        let port = json!({"name": "http", "containerPort": 8080});
        let udp = json!({"name": "dns", "containerPort": 53, "protocol": "UDP"});
        let view = view(json!({
            "metadata": {"namespace": "x", "name": "a", "uid": "u", "labels": {"app": "a"},
                "annotations": {"kubernetes.io/config.mirror": "h"}},
            "spec": {
                "nodeName": "n", "hostNetwork": true,
                "containers": [{"name": "c", "ports": [port, {"containerPort": 9}]}],
                "initContainers": [
                    {"name": "s", "restartPolicy": "Always", "ports": [udp]},
                    {"name": "i", "ports": [{"name": "early", "containerPort": 1}]},
                ],
            },
            "status": {"phase": "Failed", "podIP": "10.0.0.2", "podIPs": [{"ip": "10.0.0.2"}, {"ip": "fd00::2"}]},
        }));
        let names: Vec<_> = view
            .pod
            .ports
            .iter()
            .map(|it| format!("{} {} {}", &*it.name, it.protocol, it.number))
            .collect();
        assert_eq!(names, ["dns UDP 53", "http TCP 8080"]);
        let addresses: Vec<_> = view.pod.addresses.iter().map(ToString::to_string).collect();
        assert_eq!(addresses, ["10.0.0.2", "fd00::2"]);
        let model::Pod { is_on_host_network, is_mirror, has_ended, .. } = view.pod;
        assert!(is_on_host_network && is_mirror && has_ended);
    }

    #[test]
    fn a_nodes_own_addresses_are_those_that_it_says_and_those_of_its_links_among_pods() {
        let node: api::core::node::Node = serde_json::from_value(json!({
            "metadata": {"name": "n"}, "spec": {"podCIDRs": ["10.244.1.0/24", "fd00:1::/64"]},
            "status": {"addresses": [
                {"type": "InternalIP", "address": "192.0.2.1"}, {"type": "Hostname", "address": "n"}]},
        }))
        .unwrap();
        let addresses: Vec<_> =
            addresses_of(&NodeView::from(&node)).iter().map(ToString::to_string).collect();
        assert_eq!(addresses, ["10.244.1.0", "10.244.1.1", "192.0.2.1", "fd00:1::", "fd00:1::1"]);
    }

    #[test]
    fn endpoints_of_cluster_dns_that_are_no_pods_are_name_servers() {
        let slice = |service: &str, endpoints: serde_json::Value| -> EndpointSlice {
            serde_json::from_value(json!({
                "metadata": {"labels": {"kubernetes.io/service-name": service}},
                "addressType": "IPv4", "endpoints": endpoints,
                "ports": [{"name": "dns", "port": 53, "protocol": "UDP"}],
            }))
            .unwrap()
        };
        let pod =
            json!({"addresses": ["10.0.0.9"], "targetRef": {"kind": "Pod", "name": "coredns"}});
        let slices = [
            slice("kube-dns", json!([{"addresses": ["10.0.0.1"]}, pod])),
            slice("other", json!([{"addresses": ["10.0.0.2"]}])),
        ];
        let servers = name_servers(slices.iter());
        let addresses: Vec<_> = servers.iter().map(|it| it.address.to_string()).collect();
        assert_eq!(addresses, ["10.0.0.1"]);
    }
}
