//! Why a connection is allowed or not: what the nodes of both its ends would decide, from what the
//! API says. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use api::Pairs;
use apimachinery::ObjectKey;
use stdx::Family;

use super::model::{ClusterPolicy, Direction, Pod, Policy, Protocol};
use super::state::{Connection, Decision, NameServer, State};

/// What there is of a cluster, as far as it concerns the two.
#[derive(Clone, Debug, Default)]
pub struct Objects {
    pub pods: BTreeMap<ObjectKey, Pod>,
    pub policies: BTreeMap<ObjectKey, Policy>,
    pub cluster_policies: BTreeMap<String, ClusterPolicy>,
    pub namespaces: BTreeMap<String, Pairs>,
    pub nodes: BTreeMap<String, BTreeSet<IpAddr>>,
    pub name_servers: BTreeSet<NameServer>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    Pod(ObjectKey),
    /// Whoever has it.
    Address(IpAddr),
}

/// What one end says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reason {
    Decided(Decision),
    /// Policies do not come into it.
    Exempt(&'static str),
}

impl Reason {
    pub fn allows(&self) -> bool {
        let denies = |it: &Decision| match it {
            Decision::NotIsolated | Decision::Allowed { .. } => false,
            Decision::Isolated { .. } | Decision::Denied { .. } => true,
        };
        !matches!(self, Self::Decided(it) if denies(it))
    }
}

/// For one pair of addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    pub connection: Connection,
    pub egress: Reason,
    pub ingress: Reason,
}

impl Answer {
    pub fn allows(&self) -> bool {
        self.egress.allows() && self.ingress.allows()
    }
}

/// One answer for each family that both have an address of.
pub fn explain(
    objects: &Objects,
    (from, to): (&End, &End),
    (protocol, port): (Protocol, u16),
) -> Vec<Answer> {
    let mut answers = Vec::new();
    for family in [Family::V4, Family::V6] {
        let of =
            |end: &End| addresses(objects, end).into_iter().find(|it| Family::of(*it) == family);
        if let (Some(source), Some(destination)) = (of(from), of(to)) {
            let connection = Connection { protocol, source, destination, port };
            let egress = reason(objects, (from, to), &connection, Direction::Egress);
            let ingress = reason(objects, (from, to), &connection, Direction::Ingress);
            answers.push(Answer { connection, egress, ingress });
        }
    }
    answers
}

fn addresses(objects: &Objects, end: &End) -> Vec<IpAddr> {
    match end {
        End::Address(address) => vec![*address],
        End::Pod(key) => objects.pods.get(key).map(|it| it.addresses.clone()).unwrap_or_default(),
    }
}

fn reason(
    objects: &Objects,
    (from, to): (&End, &End),
    connection: &Connection,
    direction: Direction,
) -> Reason {
    let (subject, peer) = match direction {
        Direction::Ingress => (to, from),
        Direction::Egress => (from, to),
    };
    let End::Pod(key) = subject else {
        return Reason::Exempt("it is no pod: policies do not hold for it");
    };
    let Some(pod) = objects.pods.get(key) else { return Reason::Exempt("there is no such pod") };
    if from == to {
        return Reason::Exempt("a pod always reaches itself");
    }
    if pod.is_on_host_network {
        return Reason::Exempt("it is on its node's network: policies do not hold for it");
    }
    if is_own_node(objects, pod, peer, connection, direction) {
        return Reason::Exempt("traffic from and to a pod's own node is always allowed");
    }
    Reason::Decided(state_of(objects, &pod.node).decide(connection, direction))
}

/// All but cluster DNS that listens there.
fn is_own_node(
    objects: &Objects,
    pod: &Pod,
    peer: &End,
    connection: &Connection,
    direction: Direction,
) -> bool {
    let address = match direction {
        Direction::Ingress => connection.source,
        Direction::Egress => connection.destination,
    };
    let is_node = match peer {
        End::Pod(peer) => {
            let peer = objects.pods.get(peer);
            peer.is_some_and(|it| it.is_on_host_network && it.node == pod.node)
        }
        End::Address(_) => {
            objects.nodes.get(&*pod.node).is_some_and(|addresses| addresses.contains(&address))
        }
    };
    let is_dns = || {
        let ports = objects.name_servers.iter().filter(|it| it.address == address);
        let mut ports = ports.flat_map(|it| &it.ports);
        direction == Direction::Egress
            && ports.any(|it| (it.protocol, it.number) == (connection.protocol, connection.port))
    };
    is_node && !is_dns()
}

/// What that node knows.
fn state_of(objects: &Objects, node: &str) -> State {
    let mut state = State::new(node, &[Family::V4, Family::V6]);
    for (name, labels) in &objects.namespaces {
        state.set_namespace(name, Some(labels.clone()));
    }
    for (name, addresses) in &objects.nodes {
        state.set_node(name, Some(addresses.clone()));
    }
    state.set_name_servers(objects.name_servers.clone());
    for (key, pod) in &objects.pods {
        state.set_pod(key, Some(pod.clone()));
    }
    for (key, policy) in &objects.policies {
        state.set_policy(key, Some(policy.clone()));
    }
    for (name, policy) in &objects.cluster_policies {
        state.set_cluster_policy(name, Some(policy.clone()));
    }
    state
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::compile::compile;
    use crate::policy::model::NamedPort;
    use serde_json::{Value, json};

    fn key(text: &str) -> ObjectKey {
        let (namespace, name) = text.split_once('/').unwrap();
        ObjectKey::new(namespace, name)
    }

    fn objects(policies: &[(&str, Value)]) -> Objects {
        let mut objects = Objects::default();
        let pods =
            [("x/a", "10.0.1.2", "n1"), ("y/b", "10.0.2.2", "n2"), ("y/host", "192.0.2.1", "n1")];
        for (name, address, node) in pods {
            let pod = Pod {
                labels: [("app", name)].into_iter().collect(),
                node: node.into(),
                is_on_host_network: name == "y/host",
                addresses: vec![address.parse().unwrap()],
                ..Pod::default()
            };
            objects.pods.insert(key(name), pod);
        }
        for (name, spec) in policies {
            let key = key(name);
            let metadata = json!({"namespace": key.namespace, "name": key.name});
            let object = json!({"metadata": metadata, "spec": spec});
            objects.policies.insert(key, compile(&serde_json::from_value(object).unwrap()));
        }
        objects
            .nodes
            .insert("n1".into(), ["192.0.2.1", "10.0.1.1"].map(|it| it.parse().unwrap()).into());
        let port = NamedPort { name: "dns".into(), protocol: Protocol::Udp, number: 53 };
        let address = "10.0.1.1".parse().unwrap();
        objects.name_servers.insert(NameServer { address, ports: vec![port] });
        objects
    }

    fn end(text: &str) -> End {
        text.parse().map(End::Address).unwrap_or_else(|_| End::Pod(key(text)))
    }

    fn check(policies: &[(&str, Value)], ask: (&str, &str, u16), expected: (&str, &str)) {
        let (from, to, port) = ask;
        let protocol = if port == 53 { Protocol::Udp } else { Protocol::Tcp };
        let answers = explain(&objects(policies), (&end(from), &end(to)), (protocol, port));
        let [answer] = &answers[..] else { panic!("{answers:?}") };
        let shown = |reason: &Reason| match reason {
            Reason::Exempt(it) => (*it).to_owned(),
            Reason::Decided(Decision::NotIsolated) => "not isolated".to_owned(),
            Reason::Decided(Decision::Allowed { policy, rule }) => format!("{policy}[{rule}]"),
            Reason::Decided(Decision::Isolated { policies }) => {
                let names: Vec<_> = policies.iter().map(ToString::to_string).collect();
                format!("denied by {}", names.join(", "))
            }
            Reason::Decided(Decision::Denied { policy, rule }) => {
                format!("denied by {policy}[{rule}]")
            }
        };
        assert_eq!((&*shown(&answer.egress), &*shown(&answer.ingress)), expected, "{ask:?}");
    }

    #[test]
    fn each_end_names_the_rule_that_allows_or_the_policies_that_do_not() {
        let deny = || ("x/deny", json!({"policyTypes": ["Ingress", "Egress"]}));
        let from_y = json!([{"ports": [{"port": 1}]}, {"from": [{"namespaceSelector": {}}]}]);
        let allow = || ("x/allow", json!({"ingress": from_y.clone()}));
        check(&[], ("x/a", "y/b", 80), ("not isolated", "not isolated"));
        check(&[deny()], ("x/a", "y/b", 80), ("denied by x/deny", "not isolated"));
        check(&[deny()], ("y/b", "x/a", 80), ("not isolated", "denied by x/deny"));
        check(&[deny(), allow()], ("y/b", "x/a", 80), ("not isolated", "x/allow[1]"));
        let nobody = "it is no pod: policies do not hold for it";
        check(
            &[deny(), allow()],
            ("198.51.100.7", "x/a", 80),
            (nobody, "denied by x/allow, x/deny"),
        );
    }

    #[test]
    fn what_policies_do_not_come_into_is_said() {
        let deny = || ("x/deny", json!({"policyTypes": ["Ingress", "Egress"]}));
        let host = "it is on its node's network: policies do not hold for it";
        let own = "traffic from and to a pod's own node is always allowed";
        let itself = "a pod always reaches itself";
        check(&[deny()], ("y/host", "x/a", 80), (host, own));
        check(&[deny()], ("x/a", "x/a", 80), (itself, itself));
        let nobody = "it is no pod: policies do not hold for it";
        check(&[deny()], ("x/a", "10.0.1.1", 6443), (own, nobody));
        check(&[deny()], ("x/a", "10.0.1.1", 53), ("denied by x/deny", nobody));
    }
}
