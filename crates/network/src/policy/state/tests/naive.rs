//! What policies say, word by word, without any index: slow, and simple enough to be believed.

use std::collections::BTreeMap;
use std::net::IpAddr;

use apimachinery::ObjectKey;
use k8s_openapi::api::networking::v1::{NetworkPolicyPeer, NetworkPolicyPort, NetworkPolicySpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use serde_json::Value;
use stdx::Cidr;

use super::super::decide::Connection;
use super::random::{PlainPod, Step, object};
use crate::policy::model::{Direction, Protocol};

pub(super) const OUR_NODE: &str = "node-1";

type Labels = BTreeMap<String, String>;
type Owner = (String, Labels, Vec<(String, Protocol, u16)>);

/// What one end is asked.
struct Asked<'a> {
    key: &'a (String, String),
    labels: &'a Labels,
    peer: IpAddr,
    direction: Direction,
    connection: &'a Connection,
}

#[derive(Debug, Default)]
pub(super) struct Cluster {
    pods: BTreeMap<(String, String), PlainPod>,
    policies: BTreeMap<(String, String), Value>,
    cluster_policies: BTreeMap<String, Value>,
    namespaces: BTreeMap<String, Labels>,
    nodes: BTreeMap<String, Vec<String>>,
    name_servers: Vec<String>,
}

impl Cluster {
    pub(super) fn step(&mut self, step: &Step) {
        match step.clone() {
            Step::Pod { namespace, name, pod: Some(pod) } => {
                self.pods.insert((namespace, name), pod);
            }
            Step::Pod { namespace, name, pod: None } => {
                self.pods.remove(&(namespace, name));
            }
            Step::Policy { namespace, name, spec: Some(spec) } => {
                self.policies.insert((namespace, name), spec);
            }
            Step::Policy { namespace, name, spec: None } => {
                self.policies.remove(&(namespace, name));
            }
            Step::ClusterPolicy { name, spec: Some(spec) } => {
                self.cluster_policies.insert(name, spec);
            }
            Step::ClusterPolicy { name, spec: None } => {
                self.cluster_policies.remove(&name);
            }
            Step::Namespace { name, labels: Some(labels) } => {
                self.namespaces.insert(name, labels.into_iter().collect());
            }
            Step::Namespace { name, labels: None } => {
                self.namespaces.remove(&name);
            }
            Step::Node { name, addresses } => {
                self.nodes.insert(name, addresses);
            }
            Step::NameServers(addresses) => self.name_servers = addresses,
        }
    }

    /// That make it from nothing.
    pub(super) fn steps(&self) -> Vec<Step> {
        let pods = self.pods.iter().map(|((namespace, name), pod)| Step::Pod {
            namespace: namespace.clone(),
            name: name.clone(),
            pod: Some(pod.clone()),
        });
        let policies = self.policies.iter().map(|((namespace, name), spec)| Step::Policy {
            namespace: namespace.clone(),
            name: name.clone(),
            spec: Some(spec.clone()),
        });
        let namespaces = self.namespaces.iter().map(|(name, labels)| Step::Namespace {
            name: name.clone(),
            labels: Some(labels.clone().into_iter().collect()),
        });
        let nodes = self.nodes.iter().map(|(name, addresses)| Step::Node {
            name: name.clone(),
            addresses: addresses.clone(),
        });
        let servers = [Step::NameServers(self.name_servers.clone())];
        let of_cluster = self
            .cluster_policies
            .iter()
            .map(|(name, spec)| Step::cluster_policy(name, Some(spec.clone())));
        let policies = policies.chain(of_cluster);
        policies.chain(pods).chain(namespaces).chain(nodes).chain(servers).collect()
    }

    /// Of everybody, and of somebody outside.
    pub(super) fn addresses(&self) -> Vec<IpAddr> {
        let of_pods = self.pods.values().flat_map(|it| it.addresses.iter());
        let of_nodes = self.nodes.values().flatten();
        let mut all: Vec<IpAddr> = of_pods
            .chain(of_nodes)
            .chain(&self.name_servers)
            .map(|it| it.parse().unwrap())
            .collect();
        all.extend(["198.51.100.7".parse::<IpAddr>().unwrap(), "2001:db8::7".parse().unwrap()]);
        all.sort_unstable();
        all.dedup();
        all
    }

    fn namespace_labels(&self, name: &str) -> Labels {
        self.namespaces
            .get(name)
            .cloned()
            .unwrap_or_else(|| [("kubernetes.io/metadata.name".to_owned(), name.to_owned())].into())
    }

    /// All that go by an address: namespace, labels, ports.
    fn owners(&self, address: IpAddr) -> Vec<Owner> {
        self.owners_of(address, |_| true)
    }

    /// Without those on their node's network.
    fn owners_within_pods(&self, address: IpAddr) -> Vec<Owner> {
        self.owners_of(address, |it| !it.is_on_host_network)
    }

    fn owners_of(&self, address: IpAddr, counts: impl Fn(&PlainPod) -> bool) -> Vec<Owner> {
        let has = |all: &[String]| all.iter().any(|it| it.parse::<IpAddr>().unwrap() == address);
        let mut owners = Vec::new();
        for ((namespace, _), pod) in self.pods.iter().filter(|(_, it)| !it.has_ended && counts(it))
        {
            let of_node = self.nodes.get(&pod.node).map(Vec::as_slice).unwrap_or_default();
            if has(&pod.addresses) || (pod.is_on_host_network && has(of_node)) {
                let labels = pod.labels.iter().cloned().collect();
                owners.push((namespace.clone(), labels, pod.ports.clone()));
            }
        }
        if has(&self.name_servers) {
            let labels = [("k8s-app".to_owned(), "kube-dns".to_owned())].into();
            let ports = vec![
                ("dns".to_owned(), Protocol::Udp, 53),
                ("dns-tcp".to_owned(), Protocol::Tcp, 53),
            ];
            owners.push(("kube-system".to_owned(), labels, ports));
        }
        owners
    }

    pub(super) fn allows(&self, connection: &Connection) -> bool {
        let Connection { source, destination, .. } = *connection;
        source == destination
            || (self.allows_at(source, destination, Direction::Egress, connection)
                && self.allows_at(destination, source, Direction::Ingress, connection))
    }

    fn allows_at(
        &self,
        subject: IpAddr,
        peer: IpAddr,
        direction: Direction,
        connection: &Connection,
    ) -> bool {
        let is_subject = |it: &PlainPod| {
            let has = it.addresses.iter().any(|it| it.parse::<IpAddr>().unwrap() == subject);
            has && it.node == OUR_NODE && !it.is_on_host_network && !it.has_ended
        };
        let Some((key, pod)) = self.pods.iter().find(|(_, it)| is_subject(it)) else { return true };
        let labels: Labels = pod.labels.iter().cloned().collect();
        let asked = Asked { key, labels: &labels, peer, direction, connection };
        self.cluster_says("Admin", &asked)
            .or_else(|| self.policies_say(&asked))
            .or_else(|| self.cluster_says("Baseline", &asked))
            .unwrap_or(true)
    }

    /// `None`: they leave it to others.
    fn cluster_says(&self, tier: &str, asked: &Asked<'_>) -> Option<bool> {
        let mut policies: Vec<_> =
            self.cluster_policies.iter().filter(|it| it.1["tier"] == tier).collect();
        policies.sort_by_key(|(name, spec)| (spec["priority"].as_u64(), name.as_str()));
        let (rules, peers) = match asked.direction {
            Direction::Ingress => ("ingress", "from"),
            Direction::Egress => ("egress", "to"),
        };
        let own = (asked.key.0.clone(), asked.labels.clone(), Vec::new());
        policies.retain(|(_, spec)| self.is_cluster_peer(&spec["subject"], &own));
        let list = |it: &Value| it.as_array().cloned().unwrap_or_default();
        for rule in policies.iter().flat_map(|(_, spec)| list(&spec[rules])) {
            let action = rule["action"].as_str().unwrap();
            let all = list(&rule[peers]);
            if all.iter().any(|it| it.get("domainNames").is_some()) {
                match action {
                    "Accept" => continue,
                    _ => return Some(false),
                }
            }
            let has_peer = all.iter().any(|it| match it.get("networks") {
                Some(networks) => list(networks)
                    .iter()
                    .any(|it| it.as_str().unwrap().parse::<Cidr>().unwrap().contains(asked.peer)),
                None => {
                    let owners = self.owners_within_pods(asked.peer);
                    owners.iter().any(|owner| self.is_cluster_peer(it, owner))
                }
            });
            let ports = list(&rule["protocols"]);
            let has_port = ports.is_empty()
                || ports.iter().any(|it| self.is_cluster_port(it, asked.connection));
            match action {
                _ if !has_peer || !has_port => {}
                "Accept" => return Some(true),
                "Deny" => return Some(false),
                _ => return None,
            }
        }
        None
    }

    fn is_cluster_peer(&self, peer: &Value, (namespace, labels, _): &Owner) -> bool {
        let read = |it: &Value| serde_json::from_value::<LabelSelector>(it.clone()).unwrap();
        let of_namespace = self.namespace_labels(namespace);
        match (peer.get("namespaces"), peer.get("pods")) {
            (Some(it), _) => selects(&read(it), &of_namespace),
            (None, Some(it)) => {
                selects(&read(&it["namespaceSelector"]), &of_namespace)
                    && selects(&read(&it["podSelector"]), labels)
            }
            (None, None) => false,
        }
    }

    fn is_cluster_port(&self, protocol: &Value, connection: &Connection) -> bool {
        if let Some(name) = protocol.get("destinationNamedPort") {
            let wanted = (name.as_str().unwrap().to_owned(), connection.protocol, connection.port);
            return self.owners(connection.destination).iter().any(|it| it.2.contains(&wanted));
        }
        let name = connection.protocol.to_string().to_ascii_lowercase();
        let Some(of_protocol) = protocol.get(&name) else { return false };
        let Some(port) = of_protocol.get("destinationPort") else { return true };
        let number = |it: &Value| u16::try_from(it.as_u64().unwrap()).unwrap();
        match port.get("range") {
            Some(it) => (number(&it["start"])..=number(&it["end"])).contains(&connection.port),
            None => number(&port["number"]) == connection.port,
        }
    }

    /// `None`: the pod is not isolated.
    fn policies_say(&self, asked: &Asked<'_>) -> Option<bool> {
        let Asked { key, labels, peer, direction, connection } = *asked;
        let mut is_isolated = false;
        for ((namespace, name), spec) in &self.policies {
            let spec = object(&ObjectKey::new(namespace.clone(), name.clone()), spec).spec.unwrap();
            let selector = spec.pod_selector.clone().unwrap_or_default();
            if *namespace != key.0 || !selects(&selector, labels) || !isolates(&spec, direction) {
                continue;
            }
            is_isolated = true;
            let is_allowed = match direction {
                Direction::Ingress => spec.ingress.iter().flatten().any(|it| {
                    self.rule_allows(
                        namespace,
                        (it.from.as_ref(), it.ports.as_ref()),
                        peer,
                        connection,
                    )
                }),
                Direction::Egress => spec.egress.iter().flatten().any(|it| {
                    self.rule_allows(
                        namespace,
                        (it.to.as_ref(), it.ports.as_ref()),
                        peer,
                        connection,
                    )
                }),
            };
            if is_allowed {
                return Some(true);
            }
        }
        is_isolated.then_some(false)
    }

    fn rule_allows(
        &self,
        namespace: &str,
        (peers, ports): (Option<&Vec<NetworkPolicyPeer>>, Option<&Vec<NetworkPolicyPort>>),
        peer: IpAddr,
        connection: &Connection,
    ) -> bool {
        let peers = peers.map(Vec::as_slice).unwrap_or_default();
        let ports = ports.map(Vec::as_slice).unwrap_or_default();
        (peers.is_empty() || peers.iter().any(|it| self.is_peer(namespace, it, peer)))
            && (ports.is_empty() || ports.iter().any(|it| self.is_port(it, connection)))
    }

    fn is_peer(&self, own: &str, peer: &NetworkPolicyPeer, address: IpAddr) -> bool {
        if let Some(block) = &peer.ip_block {
            let within = |it: &String| it.parse::<Cidr>().unwrap().contains(address);
            return within(&block.cidr) && !block.except.iter().flatten().any(within);
        }
        self.owners(address).into_iter().any(|(namespace, labels, _)| {
            let has_namespace = match &peer.namespace_selector {
                None => namespace == own,
                Some(selector) => selects(selector, &self.namespace_labels(&namespace)),
            };
            has_namespace && peer.pod_selector.as_ref().is_none_or(|it| selects(it, &labels))
        })
    }

    fn is_port(&self, port: &NetworkPolicyPort, connection: &Connection) -> bool {
        if port.protocol.as_deref().unwrap_or("TCP") != connection.protocol.to_string() {
            return false;
        }
        let number = i32::from(connection.port);
        match &port.port {
            None => true,
            Some(IntOrString::Int(first)) => {
                (*first..=port.end_port.unwrap_or(*first)).contains(&number)
            }
            Some(IntOrString::String(name)) => {
                let wanted = (name.clone(), connection.protocol, connection.port);
                self.owners(connection.destination).iter().any(|it| it.2.contains(&wanted))
            }
        }
    }
}

fn isolates(spec: &NetworkPolicySpec, direction: Direction) -> bool {
    let types = spec.policy_types.clone().unwrap_or_default();
    let has = |name: &str| types.iter().any(|it| it == name);
    match direction {
        Direction::Ingress => types.is_empty() || has("Ingress"),
        Direction::Egress if types.is_empty() => spec.egress.iter().flatten().next().is_some(),
        Direction::Egress => has("Egress"),
    }
}

fn selects(selector: &LabelSelector, labels: &Labels) -> bool {
    let has = |(key, value): (&String, &String)| labels.get(key) == Some(value);
    selector.match_labels.iter().flatten().all(has)
        && selector.match_expressions.iter().flatten().all(|it| {
            let value = labels.get(&it.key);
            let is_among =
                || value.is_some_and(|value| it.values.iter().flatten().any(|it| it == value));
            match it.operator.as_str() {
                "In" => is_among(),
                "NotIn" => !is_among(),
                "Exists" => value.is_some(),
                "DoesNotExist" => value.is_none(),
                other => panic!("{other}"),
            }
        })
}
