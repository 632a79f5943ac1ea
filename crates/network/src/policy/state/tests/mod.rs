//! Random clusters and random changes: what the tables decide is what the rules of policies say,
//! however they came to be, and nothing is left of what is gone.

mod bounds;
mod interpreter;
mod naive;
mod random;

use std::collections::BTreeSet;
use std::net::IpAddr;

use apimachinery::ObjectKey;
use linux::netlink::nftables::{Chain, Change};
use node_api::{PodUid, SandboxId};
use proptest::prelude::*;
use serde_json::json;
use stdx::Family;

use super::State;
use super::decide::Connection;
use crate::policy::model::{Direction, Protocol};
use interpreter::Kernel;
use naive::{Cluster, OUR_NODE};
use random::Step;

/// The state, what the kernel was told, and the same cluster in plain words.
struct World {
    state: State,
    kernel: Kernel,
    cluster: Cluster,
}

impl World {
    fn new() -> Self {
        let state = State::new(OUR_NODE, &[Family::V4, Family::V6]);
        Self { state, kernel: Kernel::default(), cluster: Cluster::default() }
    }

    fn step(&mut self, step: &Step) {
        self.cluster.step(step);
        step.tell(&mut self.state);
        self.tell();
    }

    fn tell(&mut self) {
        for (family, changes) in self.state.take_changes() {
            self.kernel.apply(family, &changes);
        }
    }

    fn check(&self) {
        self.kernel.check_same(&self.state);
        let addresses = self.cluster.addresses();
        for source in &addresses {
            for destination in &addresses {
                for protocol in Protocol::ALL {
                    for port in [80, 81] {
                        self.check_one(Connection {
                            protocol,
                            source: *source,
                            destination: *destination,
                            port,
                        });
                    }
                }
            }
        }
    }

    fn check_one(&self, connection: Connection) {
        if connection.source.is_ipv4() != connection.destination.is_ipv4() {
            return;
        }
        let expected = self.cluster.allows(&connection);
        let decided = self.state.allows(&connection);
        assert_eq!(decided, expected, "{connection:?} decided; {:#?}", self.cluster);
        let passed = self.kernel.passes(&connection);
        assert_eq!(passed, expected, "{connection:?} in the kernel; {:#?}", self.cluster);
    }

    /// As a start would make it, from what is there now.
    fn rebuilt(&self) -> Self {
        let mut rebuilt = Self::new();
        for step in self.cluster.steps() {
            rebuilt.step(&step);
        }
        rebuilt
    }

    fn amounts(&self) -> (usize, usize, Vec<(usize, usize, usize)>) {
        let tables = self.state.tables().map(|(_, table)| {
            let table = table.cloned().unwrap_or_default();
            let n_elements = table.elements.values().map(std::collections::BTreeMap::len).sum();
            (table.chains.len(), table.sets.len(), n_elements)
        });
        (self.state.terms.len(), self.state.groups.len(), tables.collect())
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn tables_decide_as_the_rules_say_after_any_changes(
        steps in prop::collection::vec(random::step(), 1..40),
    ) {
        let mut world = World::new();
        for step in &steps {
            world.step(step);
        }
        world.check();
        let rebuilt = world.rebuilt();
        rebuilt.check();
        prop_assert_eq!(world.amounts(), rebuilt.amounts());
    }
}

#[test]
fn what_is_gone_leaves_nothing() {
    let mut world = World::new();
    world.step(&Step::policy("x", "all", Some(json!({"policyTypes": ["Ingress", "Egress"]}))));
    assert!(world.state.tables().all(|(_, it)| it.is_none()), "it holds for no pod of the node");
    world.step(&Step::pod("x", "a", &["10.244.1.2", "fd00::2"], OUR_NODE));
    assert!(world.state.tables().all(|(_, it)| it.is_some()));
    world.step(&Step::policy("x", "all", None));
    assert!(world.state.tables().all(|(_, it)| it.is_none()));
    assert!(world.kernel.is_empty());
    assert_eq!((world.state.terms.len(), world.state.groups.len()), (0, 0));
}

#[test]
fn the_cluster_speaks_before_and_after_policies_of_namespaces() {
    let rule = |action: &str| json!({"action": action, "from": [{"namespaces": {}}]});
    let of = |tier: &str, action: &str| {
        let subject = json!({"namespaces": {}});
        json!({"tier": tier, "priority": 1, "subject": subject, "ingress": [rule(action)]})
    };
    let own = |is_open: bool| json!({"ingress": if is_open { json!([{}]) } else { json!([]) }});
    let check = |admin: Option<&str>, policy: Option<bool>, baseline: Option<&str>, expected| {
        let mut world = World::new();
        world.step(&Step::pod("x", "a", &["10.244.1.2"], OUR_NODE));
        world.step(&Step::pod("y", "b", &["10.244.2.2"], "node-2"));
        world.step(&Step::cluster_policy("one", admin.map(|it| of("Admin", it))));
        world.step(&Step::policy("x", "p", policy.map(own)));
        world.step(&Step::cluster_policy("two", baseline.map(|it| of("Baseline", it))));
        let (source, destination) = ("10.244.2.2".parse().unwrap(), "10.244.1.2".parse().unwrap());
        let asked = Connection { protocol: Protocol::Tcp, source, destination, port: 80 };
        let case = format!("{admin:?} {policy:?} {baseline:?}");
        assert_eq!(world.kernel.passes(&asked), expected, "{case}");
        world.check();
    };
    check(Some("Deny"), Some(true), Some("Accept"), false);
    check(Some("Accept"), Some(false), Some("Deny"), true);
    check(Some("Pass"), Some(false), Some("Accept"), false);
    check(Some("Pass"), Some(true), Some("Deny"), true);
    check(Some("Pass"), None, Some("Deny"), false);
    check(None, Some(true), Some("Deny"), true);
    check(None, None, Some("Deny"), false);
    check(None, None, Some("Pass"), true);
    check(Some("Pass"), None, None, true);
}

#[test]
fn pods_of_the_same_policies_share_one_chain() {
    let mut world = World::new();
    world.step(&Step::policy("x", "one", Some(json!({}))));
    world.step(&Step::policy("x", "two", Some(json!({"ingress": [{}]}))));
    for last in 2..50 {
        let address = format!("10.244.1.{last}");
        world.step(&Step::pod("x", &format!("p{last}"), &[&address], OUR_NODE));
    }
    let tables: Vec<_> = world.state.tables().collect();
    let names: Vec<_> = tables[0].1.unwrap().chains.keys().cloned().collect();
    let expected = [
        "closed",
        "egress",
        "egress-to-node",
        "ingress",
        "ingress-group-0",
        "ingress-policy-0",
        "ingress-policy-1",
    ];
    assert_eq!(names, expected);
}

#[test]
fn a_pod_that_the_api_has_not_told_of_is_closed_if_policies_are_in_its_namespace() {
    let mut world = World::new();
    let key = ObjectKey::new("x", "a");
    let (sandbox, uid) = (SandboxId::new("s"), PodUid::new("x/a"));
    let pod: IpAddr = "10.244.1.2".parse().unwrap();
    let (source, port) = ("198.51.100.7".parse().unwrap(), 80);
    let ask = Connection { protocol: Protocol::Tcp, source, destination: pod, port };
    let check = |world: &mut World, is_allowed: bool| {
        world.tell();
        assert_eq!(world.kernel.passes(&ask), is_allowed);
        assert_eq!(world.state.allows(&ask), is_allowed);
    };
    world.state.attach(&sandbox, (&key, &uid), &[pod]);
    check(&mut world, true);
    // For others, as far as its labels say, which nobody knows here.
    world.step(&Step::policy(
        "x",
        "p",
        Some(json!({"podSelector": {"matchLabels": {"no": "pod"}}})),
    ));
    check(&mut world, false);
    world.step(&Step::pod("x", "a", &[], OUR_NODE));
    check(&mut world, true);
    // Another pod of the same name: the API still speaks of the one before.
    let other = SandboxId::new("t");
    world.state.detach(&sandbox, &key);
    world.state.attach(&other, (&key, &PodUid::new("another")), &[pod]);
    check(&mut world, false);
    world.state.detach(&other, &key);
    check(&mut world, true);
    assert!(world.kernel.is_empty());
}

#[test]
fn an_address_is_of_the_pod_that_is_attached_whatever_the_api_says_of_one_before() {
    let mut world = World::new();
    let allow_a = json!({"ingress": [{"from": [{"podSelector": {"matchLabels": {"app": "a"}}}]}]});
    world.step(&Step::policy("x", "p", Some(allow_a)));
    world.step(&Step::pod("x", "server", &["10.244.1.2"], OUR_NODE));
    let mut before = Step::pod("x", "before", &["10.244.1.3"], OUR_NODE);
    before.label("app", "a");
    world.step(&before);
    let (source, destination) = ("10.244.1.3".parse().unwrap(), "10.244.1.2".parse().unwrap());
    let ask = Connection { protocol: Protocol::Tcp, source, destination, port: 80 };
    assert!(world.kernel.passes(&ask));
    let key = ObjectKey::new("x", "after");
    world.state.attach(&SandboxId::new("s"), (&key, &PodUid::new("u")), &[source]);
    world.tell();
    assert!(!world.kernel.passes(&ask), "its address is another pod's by now");
    world.state.detach(&SandboxId::new("s"), &key);
    world.tell();
    assert!(world.kernel.passes(&ask));
}

#[test]
fn what_a_change_may_forbid_is_suspect_and_nothing_else() {
    let mut world = World::new();
    let suspects = |world: &mut World| -> Vec<String> {
        world.state.take_suspects().iter().map(ToString::to_string).collect()
    };
    let mut client = Step::pod("y", "client", &["10.244.2.9"], "node-2");
    client.label("app", "a");
    world.step(&client);
    world.step(&Step::pod("x", "server", &["10.244.1.2"], OUR_NODE));
    assert!(suspects(&mut world).is_empty());
    let selector = json!({"podSelector": {"matchLabels": {"app": "a"}}, "namespaceSelector": {}});
    world.step(&Step::policy("x", "p", Some(json!({"ingress": [{"from": [selector]}]}))));
    assert_eq!(suspects(&mut world), ["10.244.1.2"]);
    client.label("app", "b");
    world.step(&client);
    assert_eq!(suspects(&mut world), ["10.244.2.9"]);
    client.label("app", "a");
    world.step(&client);
    assert!(suspects(&mut world).is_empty());
    world.step(&Step::Pod { namespace: "y".into(), name: "client".into(), pod: None });
    assert!(suspects(&mut world).is_empty(), "a pod that is gone has no connections");
    world.step(&Step::policy("x", "p", Some(json!({"ingress": [{}]}))));
    assert_eq!(suspects(&mut world), ["10.244.1.2"]);
}

#[test]
fn our_name_servers_are_a_pod_of_kube_system() {
    let mut world = World::new();
    let selector = json!({
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "kube-system"}},
        "podSelector": {"matchLabels": {"k8s-app": "kube-dns"}},
    });
    let port = json!([{"port": "dns", "protocol": "UDP"}]);
    let policy = json!({"policyTypes": ["Egress"], "egress": [{"to": [selector], "ports": port}]});
    world.step(&Step::policy("x", "p", Some(policy)));
    world.step(&Step::pod("x", "a", &["10.244.1.2"], OUR_NODE));
    world.step(&Step::NameServers(vec!["10.244.1.1".into()]));
    let ask = |protocol, port| Connection {
        protocol,
        source: "10.244.1.2".parse().unwrap(),
        destination: "10.244.1.1".parse().unwrap(),
        port,
    };
    assert!(world.kernel.passes_to_node(&ask(Protocol::Udp, 53)));
    assert!(!world.kernel.passes_to_node(&ask(Protocol::Tcp, 53)), "it is the name of a UDP port");
    assert!(world.kernel.passes_to_node(&ask(Protocol::Tcp, 6443)), "its own node is open to it");
    world.step(&Step::policy("x", "p", Some(json!({"policyTypes": ["Egress"]}))));
    assert!(!world.kernel.passes_to_node(&ask(Protocol::Udp, 53)));
}

fn names(changes: &[Change]) -> BTreeSet<String> {
    changes
        .iter()
        .map(|it| format!("{it:?}").split([' ', '(']).next().unwrap().to_owned())
        .collect()
}

#[test]
fn a_peer_that_comes_changes_one_element_and_no_rule() {
    let mut world = World::new();
    let peers = json!({"namespaceSelector": {}});
    world.step(&Step::policy("x", "p", Some(json!({"ingress": [{"from": [peers]}]}))));
    world.step(&Step::pod("x", "server", &["10.244.1.2"], OUR_NODE));
    let client = Step::pod("y", "client", &["10.244.2.9"], "node-2");
    client.tell(&mut world.state);
    let changes: Vec<_> = world.state.take_changes().into_iter().flat_map(|it| it.1).collect();
    assert_eq!(names(&changes), ["AddElements".to_owned()].into());
    assert_eq!(changes.len(), 1);
}

/// What chains say, without what they are for.
fn is_hooked(chain: &Chain) -> bool {
    chain.hook.is_some()
}

#[test]
fn each_direction_decides_for_itself() {
    let mut world = World::new();
    world.step(&Step::policy("x", "p", Some(json!({"policyTypes": ["Ingress"]}))));
    world.step(&Step::pod("x", "a", &["10.244.1.2"], OUR_NODE));
    let outside = "198.51.100.7".parse().unwrap();
    let pod = "10.244.1.2".parse().unwrap();
    let out = Connection { protocol: Protocol::Tcp, source: pod, destination: outside, port: 80 };
    let into = Connection { source: outside, destination: pod, ..out };
    assert!(world.state.allows_at(&out, Direction::Egress) && world.kernel.passes(&out));
    assert!(!world.state.allows_at(&into, Direction::Ingress) && !world.kernel.passes(&into));
    let tables: Vec<_> = world.state.tables().collect();
    assert_eq!(tables[0].1.unwrap().chains.values().filter(|it| is_hooked(it)).count(), 3);
}
