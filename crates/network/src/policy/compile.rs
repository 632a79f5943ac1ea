//! NetworkPolicies as the API has them, compiled. Whatever was stored compiles: what cannot be read
//! of a rule allows nobody.

use std::net::IpAddr;

use api::networking::NetworkPolicy;
use apimachinery::selector::{Labels, Requirement};
use k8s_openapi::api::networking::v1::{IPBlock, NetworkPolicyPeer, NetworkPolicyPort};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use stdx::Cidr;

use super::model::{Namespaces, Peer, Policy, Port, Protocol, Rule, Selected};
use super::ranges::Ranges;

pub fn compile(policy: &NetworkPolicy) -> Policy {
    let namespace = policy.metadata.namespace.as_deref().unwrap_or_default();
    let spec = policy.spec.clone().unwrap_or_default();
    let types = spec.policy_types.unwrap_or_default();
    let has_egress_rules = spec.egress.as_ref().is_some_and(|it| !it.is_empty());
    let isolates = |direction: &str, by_default: bool| match types.is_empty() {
        true => by_default,
        false => types.iter().any(|it| it == direction),
    };
    let ingress = isolates("Ingress", true).then(|| {
        let rules = spec.ingress.iter().flatten();
        rules.map(|it| rule(namespace, it.from.as_deref(), it.ports.as_deref())).collect()
    });
    let egress = isolates("Egress", has_egress_rules).then(|| {
        let rules = spec.egress.iter().flatten();
        rules.map(|it| rule(namespace, it.to.as_deref(), it.ports.as_deref())).collect()
    });
    Policy { pods: selector(&spec.pod_selector.unwrap_or_default()), ingress, egress }
}

fn rule(
    namespace: &str,
    peers: Option<&[NetworkPolicyPeer]>,
    ports: Option<&[NetworkPolicyPort]>,
) -> Rule {
    let peers = peers.filter(|it| !it.is_empty());
    let ports = ports.filter(|it| !it.is_empty());
    Rule {
        peers: peers.map(|all| all.iter().filter_map(|it| peer(namespace, it)).collect()),
        ports: ports.map(|all| all.iter().filter_map(port).collect()),
    }
}

fn peer(namespace: &str, peer: &NetworkPolicyPeer) -> Option<Peer> {
    if let Some(block) = &peer.ip_block {
        return ranges(block).map(Peer::Block);
    }
    let namespaces = match &peer.namespace_selector {
        Some(it) => Namespaces::Labeled(selector(it)),
        None => {
            peer.pod_selector.as_ref()?;
            Namespaces::One(namespace.to_owned())
        }
    };
    let pods = peer.pod_selector.as_ref().map(selector).unwrap_or_default();
    Some(Peer::Pods(Selected { namespaces, pods, has_hosts: true }))
}

/// Values that were stored before they were checked stay what they are: no pod has such labels.
pub(super) fn selector(selector: &LabelSelector) -> Labels {
    let mut requirements = Vec::new();
    for (key, value) in selector.match_labels.iter().flatten() {
        requirements.push(Requirement::In(key.clone(), vec![value.clone()]));
    }
    for expression in selector.match_expressions.iter().flatten() {
        let key = expression.key.clone();
        let mut values = expression.values.clone().unwrap_or_default();
        values.sort_unstable();
        values.dedup();
        requirements.push(match expression.operator.as_str() {
            "In" => Requirement::In(key, values),
            "NotIn" => Requirement::NotIn(key, values),
            "Exists" => Requirement::Exists(key),
            "DoesNotExist" => Requirement::Absent(key),
            _ => return Labels::nothing(),
        });
    }
    requirements.sort_by_cached_key(ToString::to_string);
    requirements.dedup();
    Labels { requirements, is_nothing: false }
}

fn ranges(block: &IPBlock) -> Option<Ranges> {
    let except: Option<Vec<Cidr>> = block.except.iter().flatten().map(|it| cidr(it)).collect();
    Some(Ranges::block(cidr(&block.cidr)?, &except?))
}

/// Also with bits behind the prefix, as such were stored once.
pub(super) fn cidr(text: &str) -> Option<Cidr> {
    let (address, length) = text.split_once('/')?;
    Cidr::containing(address.parse::<IpAddr>().ok()?, length.parse().ok()?)
}

fn port(port: &NetworkPolicyPort) -> Option<Port> {
    let protocol = Protocol::named(port.protocol.as_deref().unwrap_or_default())?;
    Some(match &port.port {
        None => Port::Numbers { protocol, first: 0, last: u16::MAX },
        Some(IntOrString::String(name)) => Port::Named { protocol, name: name.clone() },
        Some(IntOrString::Int(first)) => {
            let last = u16::try_from(port.end_port.unwrap_or(*first)).ok()?;
            Port::Numbers { protocol, first: u16::try_from(*first).ok()?, last }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn compiled(spec: Value) -> Policy {
        let object = json!({"metadata": {"namespace": "x", "name": "p"}, "spec": spec});
        compile(&serde_json::from_value(object).unwrap())
    }

    #[test]
    fn a_policy_isolates_in_the_directions_that_it_names() {
        let check = |spec: Value, ingress: Option<usize>, egress: Option<usize>| {
            let policy = compiled(spec);
            let n_rules = |it: Option<Vec<Rule>>| it.map(|it| it.len());
            assert_eq!((n_rules(policy.ingress), n_rules(policy.egress)), (ingress, egress));
        };
        check(json!({}), Some(0), None);
        check(json!({"egress": []}), Some(0), None);
        check(json!({"egress": [{}]}), Some(0), Some(1));
        check(json!({"policyTypes": ["Egress"], "ingress": [{}]}), None, Some(0));
        check(json!({"policyTypes": ["Ingress", "Egress"], "ingress": [{}]}), Some(1), Some(0));
    }

    #[test]
    fn empty_is_all_and_absent_is_none_of_that_kind() {
        let of = |rule: Value| compiled(json!({"ingress": [rule]})).ingress.unwrap().remove(0);
        assert_eq!(of(json!({})), Rule { peers: None, ports: None });
        assert_eq!(of(json!({"from": [], "ports": []})), Rule { peers: None, ports: None });
        let selected = |peer: Value| match of(json!({"from": [peer]})).peers.unwrap().remove(0) {
            Peer::Pods(it) => it,
            Peer::Block(it) => panic!("{it:?}"),
        };
        let own = selected(json!({"podSelector": {}}));
        assert_eq!(own.namespaces, Namespaces::One("x".to_owned()));
        let all = selected(json!({"namespaceSelector": {}}));
        assert_eq!(all.namespaces, Namespaces::Labeled(Labels::default()));
        assert!(all.pods.is_everything() && own.pods.is_everything());
    }

    #[test]
    fn what_cannot_be_read_allows_nobody() {
        let of = |rule: Value| compiled(json!({"ingress": [rule]})).ingress.unwrap().remove(0);
        let blocks = json!([{"ipBlock": {"cidr": "x"}}, {"ipBlock": {"cidr": "10.0.0.0/8", "except": ["y"]}}]);
        assert_eq!(of(json!({"from": blocks})).peers, Some(vec![]));
        assert_eq!(of(json!({"ports": [{"protocol": "ICMP"}]})).ports, Some(vec![]));
        assert_eq!(of(json!({"ports": [{"port": 70000}]})).ports, Some(vec![]));
        let strange = json!({"podSelector": {"matchExpressions": [{"key": "a", "operator": "?"}]}});
        let Some(Peer::Pods(it)) = of(json!({"from": [strange]})).peers.unwrap().pop() else {
            panic!("no pods")
        };
        assert!(it.pods.is_nothing);
    }

    #[test]
    fn ports_are_numbers_ranges_and_names_of_a_protocol() {
        let of = |port: Value| {
            let rule = json!({"ports": [port]});
            compiled(json!({"ingress": [rule]})).ingress.unwrap().remove(0).ports.unwrap().remove(0)
        };
        let numbers = |protocol, first, last| Port::Numbers { protocol, first, last };
        assert_eq!(of(json!({"port": 80})), numbers(Protocol::Tcp, 80, 80));
        assert_eq!(of(json!({"protocol": "SCTP"})), numbers(Protocol::Sctp, 0, 65535));
        let range = json!({"port": 80, "endPort": 90, "protocol": "UDP"});
        assert_eq!(of(range), numbers(Protocol::Udp, 80, 90));
        let named = Port::Named { protocol: Protocol::Tcp, name: "http".to_owned() };
        assert_eq!(of(json!({"port": "http"})), named);
    }
}
