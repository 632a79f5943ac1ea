//! ClusterNetworkPolicies (`policy.networking.k8s.io/v1alpha2`, the standard channel) as the API has
//! them, compiled. What is not known here of a rule fails closed, as the definition of the kind
//! says: what it accepts is nobody, and what it denies or passes on is denied to everybody.

use api::{Stored, View};
use apimachinery::{GroupVersionResource, ObjectKey};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use serde::Deserialize;

use super::compile::{cidr, selector};
use super::model::{
    Action, ClusterPolicy, ClusterRule, Namespaces, Peer, Port, Protocol, Rule, Selected, Tier,
};
use super::ranges::Ranges;
use apimachinery::selector::Labels;

pub const GROUP: &str = "policy.networking.k8s.io";
pub const VERSION: &str = "v1alpha2";
pub const PLURAL: &str = "clusternetworkpolicies";

#[derive(Clone, Debug)]
pub struct ClusterPolicyView {
    pub key: ObjectKey,
    pub policy: ClusterPolicy,
}

impl View for ClusterPolicyView {
    fn resource() -> GroupVersionResource {
        GroupVersionResource::new(GROUP, VERSION, PLURAL)
    }

    fn read(stored: &Stored) -> Result<Self, serde_json::Error> {
        let written: Written = serde_json::from_slice(&stored.bytes)?;
        Ok(Self { key: stored.meta.key.clone(), policy: compile(written.spec) })
    }
}

#[derive(Deserialize)]
struct Written {
    spec: Spec,
}

#[derive(Deserialize)]
struct Spec {
    tier: WrittenTier,
    priority: u16,
    subject: Subject,
    #[serde(default)]
    ingress: Vec<WrittenRule>,
    #[serde(default)]
    egress: Vec<WrittenRule>,
}

#[derive(Clone, Copy, Deserialize)]
enum WrittenTier {
    Admin,
    Baseline,
}

#[derive(Default, Deserialize)]
struct Subject {
    namespaces: Option<LabelSelector>,
    pods: Option<NamespacedPod>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct NamespacedPod {
    #[serde(default)]
    namespace_selector: LabelSelector,
    #[serde(default)]
    pod_selector: LabelSelector,
}

#[derive(Deserialize)]
struct WrittenRule {
    action: WrittenAction,
    #[serde(default, alias = "from")]
    to: Vec<WrittenPeer>,
    #[serde(default)]
    protocols: Vec<WrittenProtocol>,
}

#[derive(Clone, Copy, Deserialize)]
enum WrittenAction {
    Accept,
    Deny,
    Pass,
}

/// One of them; others, such as nodes and names of domains, are of the experimental channel.
#[derive(Deserialize)]
struct WrittenPeer {
    namespaces: Option<LabelSelector>,
    pods: Option<NamespacedPod>,
    networks: Option<Vec<String>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct WrittenProtocol {
    tcp: Option<Numbered>,
    udp: Option<Numbered>,
    sctp: Option<Numbered>,
    destination_named_port: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Numbered {
    destination_port: Option<DestinationPort>,
}

#[derive(Deserialize)]
struct DestinationPort {
    number: Option<u16>,
    range: Option<PortRange>,
}

#[derive(Deserialize)]
struct PortRange {
    start: u16,
    end: u16,
}

fn compile(spec: Spec) -> ClusterPolicy {
    let rules = |written: Vec<WrittenRule>| {
        written.into_iter().enumerate().filter_map(|(index, it)| rule(index, &it)).collect()
    };
    ClusterPolicy {
        tier: match spec.tier {
            WrittenTier::Admin => Tier::Admin,
            WrittenTier::Baseline => Tier::Baseline,
        },
        priority: spec.priority,
        subject: selected(spec.subject.namespaces.as_ref(), spec.subject.pods.as_ref())
            .unwrap_or_else(|| of_namespaces(Labels::nothing())),
        ingress: rules(spec.ingress),
        egress: rules(spec.egress),
    }
}

/// `None`: it concerns nobody.
fn rule(index: usize, written: &WrittenRule) -> Option<ClusterRule> {
    let action = match written.action {
        WrittenAction::Accept => Action::Accept,
        WrittenAction::Deny => Action::Deny,
        WrittenAction::Pass => Action::Pass,
    };
    match (matching(written), action) {
        (Some(matching), _) => Some(ClusterRule { action, index, matching }),
        (None, Action::Accept) => None,
        (None, Action::Deny | Action::Pass) => {
            let matching = Rule { peers: None, ports: None };
            Some(ClusterRule { action: Action::Deny, index, matching })
        }
    }
}

/// `None`: something in it is not known here.
fn matching(written: &WrittenRule) -> Option<Rule> {
    let peers: Option<Vec<Peer>> = written.to.iter().map(peer).collect();
    let ports: Option<Vec<Vec<Port>>> = written.protocols.iter().map(ports).collect();
    let ports: Vec<Port> = ports?.into_iter().flatten().collect();
    Some(Rule { peers: Some(peers?), ports: (!ports.is_empty()).then_some(ports) })
}

fn peer(written: &WrittenPeer) -> Option<Peer> {
    match &written.networks {
        Some(networks) => {
            let blocks: Option<Vec<Ranges>> =
                networks.iter().map(|it| Some(Ranges::block(cidr(it)?, &[]))).collect();
            Some(Peer::Block(Ranges::union(blocks?)))
        }
        None => selected(written.namespaces.as_ref(), written.pods.as_ref()).map(Peer::Pods),
    }
}

fn selected(namespaces: Option<&LabelSelector>, pods: Option<&NamespacedPod>) -> Option<Selected> {
    match (namespaces, pods) {
        (Some(it), None) => Some(of_namespaces(selector(it))),
        (None, Some(it)) => Some(Selected {
            pods: selector(&it.pod_selector),
            ..of_namespaces(selector(&it.namespace_selector))
        }),
        (None, None) | (Some(_), Some(_)) => None,
    }
}

/// Pods on their node's network are never meant.
fn of_namespaces(labels: Labels) -> Selected {
    let namespaces = Namespaces::Labeled(labels);
    Selected { namespaces, pods: Labels::default(), has_hosts: false }
}

fn ports(written: &WrittenProtocol) -> Option<Vec<Port>> {
    let WrittenProtocol { tcp, udp, sctp, destination_named_port } = written;
    let numbered = [(Protocol::Tcp, tcp), (Protocol::Udp, udp), (Protocol::Sctp, sctp)];
    let mut given =
        numbered.into_iter().filter_map(|(protocol, it)| Some((protocol, it.as_ref()?)));
    match (given.next(), given.next(), destination_named_port) {
        (Some((protocol, it)), None, None) => numbers(protocol, it).map(|it| vec![it]),
        (None, None, Some(name)) => {
            let named = |protocol| Port::Named { protocol, name: name.clone() };
            Some(Protocol::ALL.map(named).into())
        }
        _ => None,
    }
}

fn numbers(protocol: Protocol, written: &Numbered) -> Option<Port> {
    let (first, last) = match &written.destination_port {
        None => (0, u16::MAX),
        Some(DestinationPort { number: Some(it), range: None }) => (*it, *it),
        Some(DestinationPort { number: None, range: Some(it) }) => (it.start, it.end),
        Some(_) => return None,
    };
    Some(Port::Numbers { protocol, first, last })
}

/// From the spec of an object.
#[cfg(test)]
pub(super) fn compiled(spec: &serde_json::Value) -> ClusterPolicy {
    let bytes = serde_json::json!({"spec": spec}).to_string();
    compile(serde_json::from_str::<Written>(&bytes).unwrap().spec)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn egress(rule: &Value) -> Vec<ClusterRule> {
        let subject = json!({"namespaces": {}});
        compiled(&json!({"tier": "Admin", "priority": 1, "subject": subject, "egress": [rule]}))
            .egress
    }

    #[test]
    fn a_policy_is_about_pods_of_namespaces_in_a_tier() {
        let policy = compiled(&json!({
            "tier": "Baseline", "priority": 7,
            "subject": {"pods": {"namespaceSelector": {"matchLabels": {"team": "t"}}, "podSelector": {}}},
            "ingress": [{"action": "Deny", "from": [{"namespaces": {}}]}],
        }));
        assert_eq!((policy.tier, policy.priority), (Tier::Baseline, 7));
        let team = Namespaces::Labeled(Labels::parse("team=t").unwrap());
        assert_eq!((policy.subject.namespaces, policy.subject.has_hosts), (team, false));
        assert_eq!((policy.ingress.len(), policy.egress.len()), (1, 0));
    }

    #[test]
    fn protocols_are_numbers_ranges_and_names_of_any_protocol() {
        let check = |protocol: Value, expected: &str| {
            let to = json!([{"namespaces": {}}]);
            let rules = egress(&json!({"action": "Accept", "to": to, "protocols": [protocol]}));
            let ports: Vec<String> = rules[0].matching.ports.iter().flatten().map(shown).collect();
            assert_eq!(ports.join(" "), expected);
        };
        fn shown(port: &Port) -> String {
            match port {
                Port::Numbers { protocol, first, last } => format!("{protocol}:{first}-{last}"),
                Port::Named { protocol, name } => format!("{protocol}:{name}"),
            }
        }
        check(json!({"tcp": {"destinationPort": {"number": 80}}}), "TCP:80-80");
        check(json!({"sctp": {}}), "SCTP:0-65535");
        let range = json!({"start": 80, "end": 90});
        check(json!({"udp": {"destinationPort": {"range": range}}}), "UDP:80-90");
        check(json!({"destinationNamedPort": "http"}), "TCP:http UDP:http SCTP:http");
    }

    #[test]
    fn what_is_not_known_fails_closed() {
        let check = |rule: Value, expected: Option<(Action, bool)>| {
            let found = egress(&rule);
            let is_all = |it: &Rule| it.peers.is_none() && it.ports.is_none();
            let found = found.first().map(|it| (it.action, is_all(&it.matching)));
            assert_eq!(found, expected, "{rule}");
        };
        let all = json!({"namespaces": {}});
        let domain = json!({"domainNames": ["example.com"]});
        let strange = json!([{"icmp": {}}]);
        check(json!({"action": "Accept", "to": [all, domain]}), None);
        check(json!({"action": "Pass", "to": [domain]}), Some((Action::Deny, true)));
        check(json!({"action": "Deny", "to": [{"nodes": {}}]}), Some((Action::Deny, true)));
        check(json!({"action": "Accept", "to": [all], "protocols": strange}), None);
        check(json!({"action": "Deny", "to": [{"networks": ["x"]}]}), Some((Action::Deny, true)));
        check(json!({"action": "Deny", "to": [all]}), Some((Action::Deny, false)));
    }
}
