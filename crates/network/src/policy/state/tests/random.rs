//! Steps that change a cluster, and random ones.

use std::collections::BTreeSet;
use std::net::IpAddr;

use api::Pairs;
use api::networking::NetworkPolicy;
use apimachinery::ObjectKey;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::super::{NameServer, State};
use super::naive::OUR_NODE;
use crate::policy::cluster;
use crate::policy::compile::compile;
use crate::policy::model::{NamedPort, Pod, Protocol};

pub(super) type Labels = Vec<(String, String)>;

#[derive(Clone, Debug)]
pub(super) enum Step {
    Pod { namespace: String, name: String, pod: Option<PlainPod> },
    Policy { namespace: String, name: String, spec: Option<Value> },
    ClusterPolicy { name: String, spec: Option<Value> },
    Namespace { name: String, labels: Option<Labels> },
    Node { name: String, addresses: Vec<String> },
    NameServers(Vec<String>),
}

#[derive(Clone, Debug, Default)]
pub(super) struct PlainPod {
    pub(super) labels: Labels,
    pub(super) node: String,
    pub(super) is_on_host_network: bool,
    pub(super) has_ended: bool,
    pub(super) addresses: Vec<String>,
    pub(super) ports: Vec<(String, Protocol, u16)>,
}

impl Step {
    pub(super) fn pod(namespace: &str, name: &str, addresses: &[&str], node: &str) -> Self {
        let addresses = addresses.iter().map(|it| (*it).to_owned()).collect();
        let pod = PlainPod { addresses, node: node.to_owned(), ..PlainPod::default() };
        Self::Pod { namespace: namespace.into(), name: name.into(), pod: Some(pod) }
    }

    /// In place of the one that it had.
    pub(super) fn label(&mut self, key: &str, value: &str) {
        if let Self::Pod { pod: Some(pod), .. } = self {
            pod.labels.retain(|(it, _)| it != key);
            pod.labels.push((key.to_owned(), value.to_owned()));
        }
    }

    pub(super) fn policy(namespace: &str, name: &str, spec: Option<Value>) -> Self {
        Self::Policy { namespace: namespace.into(), name: name.into(), spec }
    }

    pub(super) fn cluster_policy(name: &str, spec: Option<Value>) -> Self {
        Self::ClusterPolicy { name: name.into(), spec }
    }

    pub(super) fn tell(&self, state: &mut State) {
        match self {
            Self::ClusterPolicy { name, spec } => {
                state.set_cluster_policy(name, spec.as_ref().map(cluster::compiled));
            }
            Self::Pod { namespace, name, pod } => {
                let key = ObjectKey::new(namespace.clone(), name.clone());
                state.set_pod(&key, pod.as_ref().map(|it| it.compiled(&key)));
            }
            Self::Policy { namespace, name, spec } => {
                let key = ObjectKey::new(namespace.clone(), name.clone());
                let policy = spec.as_ref().map(|it| compile(&object(&key, it)));
                state.set_policy(&key, policy);
            }
            Self::Namespace { name, labels } => {
                state.set_namespace(name, labels.as_ref().map(|it| pairs(it)));
            }
            Self::Node { name, addresses } => {
                let addresses = addresses.iter().map(|it| it.parse().unwrap()).collect();
                state.set_node(name, Some(addresses));
            }
            Self::NameServers(addresses) => {
                let port =
                    |name: &str, protocol| NamedPort { name: name.into(), protocol, number: 53 };
                let server = |it: &String| NameServer {
                    address: it.parse().unwrap(),
                    ports: vec![port("dns", Protocol::Udp), port("dns-tcp", Protocol::Tcp)],
                };
                state.set_name_servers(addresses.iter().map(server).collect::<BTreeSet<_>>());
            }
        }
    }
}

pub(super) fn object(key: &ObjectKey, spec: &Value) -> NetworkPolicy {
    let metadata = json!({"namespace": key.namespace, "name": key.name});
    serde_json::from_value(json!({"metadata": metadata, "spec": spec})).unwrap()
}

fn pairs(labels: &[(String, String)]) -> Pairs {
    labels.iter().map(|(key, value)| (key, value)).collect()
}

impl PlainPod {
    fn compiled(&self, key: &ObjectKey) -> Pod {
        let port = |(name, protocol, number): &(String, Protocol, u16)| NamedPort {
            name: name.as_str().into(),
            protocol: *protocol,
            number: *number,
        };
        Pod {
            uid: key.to_string().into(),
            labels: pairs(&self.labels),
            node: self.node.as_str().into(),
            is_on_host_network: self.is_on_host_network,
            is_mirror: false,
            has_ended: self.has_ended,
            addresses: self.addresses.iter().map(|it| it.parse::<IpAddr>().unwrap()).collect(),
            ports: self.ports.iter().map(port).collect(),
        }
    }
}

const NAMESPACES: [&str; 3] = ["x", "y", "z"];

fn namespace() -> impl Strategy<Value = String> {
    prop::sample::select(NAMESPACES.map(str::to_owned).to_vec())
}

fn labels() -> impl Strategy<Value = Labels> {
    let label = |key: &'static str| {
        let value = prop::sample::select(vec!["a", "b", "c"]);
        prop::option::of(value).prop_map(move |it| it.map(|it| (key.to_owned(), it.to_owned())))
    };
    (label("app"), label("tier")).prop_map(|(one, two)| one.into_iter().chain(two).collect())
}

/// Each pod has an address of its own, of both families; those on the host's network have their
/// node's.
fn pod() -> impl Strategy<Value = Step> {
    let port = || (prop::sample::select(vec!["http", "other"]), protocol(), 80u16..82);
    let port =
        move || port().prop_map(|(name, protocol, number)| (name.to_owned(), protocol, number));
    let place = (0usize..3, 0u8..3, any::<bool>(), 0u8..10, 0u8..10);
    (place, labels(), prop::collection::vec(port(), 0..3)).prop_map(|(place, labels, ports)| {
        let (namespace, name, is_ours, host, end) = place;
        let last = namespace * 3 + usize::from(name) + 2;
        let node = if is_ours { OUR_NODE } else { "node-2" };
        let is_on_host_network = host == 0;
        let addresses = match is_on_host_network {
            true => vec![if is_ours { "192.0.2.1" } else { "192.0.2.2" }.to_owned()],
            false => vec![format!("10.244.1.{last}"), format!("fd00::{last}")],
        };
        let pod = PlainPod {
            labels,
            node: node.to_owned(),
            is_on_host_network,
            has_ended: end == 0,
            addresses,
            ports,
        };
        let (namespace, name) = (NAMESPACES[namespace].to_owned(), format!("p{name}"));
        Step::Pod { namespace, name, pod: (end != 1).then_some(pod) }
    })
}

fn protocol() -> impl Strategy<Value = Protocol> {
    prop::sample::select(Protocol::ALL.to_vec())
}

fn selector() -> impl Strategy<Value = Value> {
    let (key, value) = (
        || prop::sample::select(vec!["app", "tier"]),
        || prop::sample::select(vec!["a", "b", "c"]),
    );
    prop_oneof![
        Just(json!({})),
        (key(), value()).prop_map(|(key, value)| json!({"matchLabels": {key: value}})),
        (key(), prop::collection::vec(value(), 1..3), any::<bool>()).prop_map(
            |(key, values, not)| {
                let operator = if not { "NotIn" } else { "In" };
                json!({"matchExpressions": [{"key": key, "operator": operator, "values": values}]})
            }
        ),
        (key(), any::<bool>()).prop_map(|(key, not)| {
            let operator = if not { "DoesNotExist" } else { "Exists" };
            json!({"matchExpressions": [{"key": key, "operator": operator}]})
        }),
    ]
}

fn peer() -> impl Strategy<Value = Value> {
    let block = prop::sample::select(vec![
        json!({"cidr": "0.0.0.0/0", "except": ["10.244.1.0/29"]}),
        json!({"cidr": "0.0.0.0/0", "except": ["0.0.0.0/1", "128.0.0.0/1"]}),
        json!({"cidr": "10.244.1.2/31"}),
        json!({"cidr": "10.244.0.0/16", "except": ["10.244.1.4/30", "10.244.1.6/32"]}),
        json!({"cidr": "192.0.2.0/24"}),
        json!({"cidr": "::/0", "except": ["fd00::4/126"]}),
        json!({"cidr": "198.51.100.7/32"}),
    ]);
    prop_oneof![
        selector().prop_map(|it| json!({"podSelector": it})),
        selector().prop_map(|it| json!({"namespaceSelector": it})),
        (selector(), selector())
            .prop_map(|(pods, names)| json!({"podSelector": pods, "namespaceSelector": names})),
        namespace().prop_map(|it| {
            json!({"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": it}}})
        }),
        block.prop_map(|it| json!({"ipBlock": it})),
    ]
}

fn port() -> impl Strategy<Value = Value> {
    let protocol = || protocol().prop_map(|it| it.to_string());
    prop_oneof![
        (protocol(), 80u16..82).prop_map(|(it, port)| json!({"protocol": it, "port": port})),
        protocol().prop_map(|it| json!({"protocol": it})),
        protocol().prop_map(|it| json!({"protocol": it, "port": 70, "endPort": 80})),
        (protocol(), prop::sample::select(vec!["http", "other", "none"]))
            .prop_map(|(it, name)| json!({"protocol": it, "port": name})),
    ]
}

fn rules(peers: &'static str) -> impl Strategy<Value = Vec<Value>> {
    let parts = (prop::collection::vec(peer(), 0..4), prop::collection::vec(port(), 0..4));
    prop::collection::vec(
        parts.prop_map(move |(of, ports)| json!({peers: of, "ports": ports})),
        0..3,
    )
}

fn spec() -> impl Strategy<Value = Value> {
    let types = prop::sample::select(vec![
        json!([]),
        json!(["Ingress"]),
        json!(["Egress"]),
        json!(["Ingress", "Egress"]),
    ]);
    (selector(), rules("from"), rules("to"), types).prop_map(|(pods, ingress, egress, types)| {
        json!({"podSelector": pods, "ingress": ingress, "egress": egress, "policyTypes": types})
    })
}

fn policy() -> impl Strategy<Value = Step> {
    (namespace(), 0u8..3, prop::option::weighted(0.8, spec())).prop_map(
        |(namespace, name, spec)| Step::Policy { namespace, name: format!("policy-{name}"), spec },
    )
}

fn cluster_peer(has_networks: bool) -> impl Strategy<Value = Value> {
    let networks = prop::sample::select(vec![
        json!({"networks": ["10.244.1.2/31", "fd00::/64"]}),
        json!({"networks": ["0.0.0.0/0"]}),
        json!({"networks": ["198.51.100.7/32", "192.0.2.0/24"]}),
        json!({"domainNames": ["example.com"]}),
    ]);
    let pods = (selector(), selector()).prop_map(
        |(pods, names)| json!({"pods": {"podSelector": pods, "namespaceSelector": names}}),
    );
    prop_oneof![
        2 => selector().prop_map(|it| json!({"namespaces": it})),
        2 => pods,
        u32::from(has_networks) => networks,
    ]
}

fn cluster_protocol() -> impl Strategy<Value = Value> {
    let name = || protocol().prop_map(|it| it.to_string().to_ascii_lowercase());
    let named = prop::sample::select(vec!["http", "other", "none"]);
    prop_oneof![
        (name(), 80u16..82)
            .prop_map(|(it, port)| json!({it: {"destinationPort": {"number": port}}})),
        name().prop_map(|it| json!({it: {"destinationPort": {"range": {"start": 70, "end": 80}}}})),
        name().prop_map(|it| json!({it: {}})),
        named.prop_map(|it| json!({"destinationNamedPort": it})),
    ]
}

fn cluster_rules(peers: &'static str, has_networks: bool) -> impl Strategy<Value = Vec<Value>> {
    let action = prop::sample::select(vec!["Accept", "Deny", "Pass"]);
    let parts = (
        action,
        prop::collection::vec(cluster_peer(has_networks), 1..4),
        prop::collection::vec(cluster_protocol(), 0..4),
    );
    let rule = parts
        .prop_map(move |(action, of, all)| json!({"action": action, peers: of, "protocols": all}));
    prop::collection::vec(rule, 0..4)
}

fn cluster_policy() -> impl Strategy<Value = Step> {
    let tier = prop::sample::select(vec!["Admin", "Baseline"]);
    let rules = (cluster_rules("from", false), cluster_rules("to", true));
    let spec = (tier, 0u16..3, cluster_peer(false), rules).prop_map(
        |(tier, priority, subject, (ingress, egress))| {
            json!({"tier": tier, "priority": priority, "subject": subject, "ingress": ingress, "egress": egress})
        },
    );
    (0u8..4, prop::option::weighted(0.8, spec))
        .prop_map(|(name, spec)| Step::ClusterPolicy { name: format!("cluster-{name}"), spec })
}

pub(super) fn step() -> impl Strategy<Value = Step> {
    let of_namespace =
        (namespace(), prop::option::weighted(0.8, labels())).prop_map(|(name, it)| {
            let own = ("kubernetes.io/metadata.name".to_owned(), name.clone());
            let labels = it.map(|it| it.into_iter().chain([own]).collect());
            Step::Namespace { name, labels }
        });
    let of_node = (any::<bool>(), any::<bool>()).prop_map(|(is_ours, has_more)| {
        let (name, address) = match is_ours {
            true => (OUR_NODE, "192.0.2.1"),
            false => ("node-2", "192.0.2.2"),
        };
        let more = has_more.then(|| if is_ours { "10.244.1.1" } else { "10.244.2.1" }.to_owned());
        let addresses = [address.to_owned()].into_iter().chain(more).collect();
        Step::Node { name: name.to_owned(), addresses }
    });
    let servers =
        prop::sample::select(vec![vec![], vec!["10.244.1.1"], vec!["10.244.2.1", "fd00::1"]]);
    let servers =
        servers.prop_map(|it| Step::NameServers(it.into_iter().map(str::to_owned).collect()));
    prop_oneof![8 => pod(), 6 => policy(), 4 => cluster_policy(), 2 => of_namespace, 1 => of_node, 1 => servers]
}
