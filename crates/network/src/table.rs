//! The nftables tables `ip xebec-<cluster>-network` and `ip6 xebec-<cluster>-network`, described
//! whole. Pure.
//!
//! Rules never change; pods are elements of sets and maps, so that a pod that comes or goes costs
//! the same whatever the number of pods.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use linux::netlink::nftables::expression::{
    Base, Comparison, FIB_LOCAL, FibAddress, Meta, Nat, Target, nat_flags, network_mask,
};
use linux::netlink::nftables::{
    Chain, ChainKind, Change, Data, Expression, Hook, HookPoint, Key, Observed, Register, Rule,
    Set, Table, TableFamily, TableId, Type, Value, Verdict, element_changes, priority,
};
use node_api::ClusterId;
use node_api::network::HostPort;

use crate::host_ports::{host_address, protocol_number};
use crate::range::Range;
use crate::records::Record;

const NAME: &str = "network";

pub(crate) fn id(cluster: ClusterId) -> TableId {
    TableId::new(TableFamily::Ip, cluster.table(NAME))
}

/// Pods have no IPv6: what comes from them by it (router advertisements, CVE-2020-10749) is not for
/// us.
pub(crate) fn id_ipv6(cluster: ClusterId) -> TableId {
    TableId::new(TableFamily::Ip6, cluster.table(NAME))
}

/// Whose pod network the table is; `None` for any other table.
pub(crate) fn cluster_of(id: &TableId) -> Option<ClusterId> {
    let words = id.name.strip_prefix("xebec-")?.strip_suffix(NAME)?;
    let cluster = words.strip_suffix('-')?.parse().ok()?;
    (*id == self::id(cluster)).then_some(cluster)
}

/// From protocol and port to a pod's address and port.
const HOST_PORTS: &str = "host-ports";
/// The same for ports on one address of the node.
const HOST_ADDRESS_PORTS: &str = "host-address-ports";
/// Every pod's address with itself.
const HAIRPINS: &str = "hairpins";

const ADDRESS_AND_PORT: &[Type] = &[Type::Ipv4Address, Type::Port];

/// Before conntrack looks at packets (`NF_IP_PRI_RAW`).
const PRIORITY_RAW: i32 = -300;

/// Offsets in the IPv4 header.
const SOURCE: u32 = 12;
const DESTINATION: u32 = 16;
/// Offset in the headers of TCP, UDP and SCTP.
const DESTINATION_PORT: u32 = 2;

/// What the rules depend on besides the pods.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Settings {
    pub(crate) pods: Range,
    pub(crate) cluster: Range,
    /// The group of the host ends of the pods' links.
    pub(crate) group: u32,
}

pub(crate) fn table<'a>(settings: &Settings, pods: impl Iterator<Item = &'a Record>) -> Table {
    let mut elements = BTreeMap::from([
        (HOST_PORTS, BTreeMap::new()),
        (HOST_ADDRESS_PORTS, BTreeMap::new()),
        (HAIRPINS, BTreeMap::new()),
    ]);
    for pod in pods {
        for (set, key, data) in pod_elements(pod) {
            elements.entry(set).or_default().insert(key, data);
        }
    }
    Table {
        chains: chains(settings),
        sets: BTreeMap::from([
            (HOST_PORTS, Set::map(&[Type::Protocol, Type::Port], ADDRESS_AND_PORT)),
            (
                HOST_ADDRESS_PORTS,
                Set::map(&[Type::Ipv4Address, Type::Protocol, Type::Port], ADDRESS_AND_PORT),
            ),
            (HAIRPINS, Set::of(&[Type::Ipv4Address, Type::Ipv4Address])),
        ]),
        elements,
    }
}

pub(crate) fn table_ipv6(settings: &Settings) -> Table {
    let mut expressions = from_pods(settings.group);
    expressions.push(Expression::Verdict(Verdict::Drop));
    let rules = vec![Rule::new("pods do not speak IPv6", expressions)];
    let hook = Hook::new(ChainKind::Filter, HookPoint::Prerouting, PRIORITY_RAW);
    let chains = BTreeMap::from([("guard".into(), Chain::at(hook, rules))]);
    Table { chains, ..Table::default() }
}

/// What changes when a pod comes, goes or gets other host ports.
pub(crate) fn pod_changes(before: Option<&Record>, after: Option<&Record>) -> Vec<Change> {
    let elements_in = |pod: Option<&Record>, set| {
        let elements = pod.map(pod_elements).unwrap_or_default();
        elements
            .into_iter()
            .filter(|(it, _, _)| *it == set)
            .map(|(_, key, data)| (key, data))
            .collect()
    };
    let sets = [HOST_PORTS, HOST_ADDRESS_PORTS, HAIRPINS];
    sets.into_iter()
        .flat_map(|set| element_changes(set, &elements_in(before, set), &elements_in(after, set)))
        .collect()
}

/// Whether a table that another cluster made sends this port of the host to one of its pods. A port
/// on all addresses meets those on any.
pub(crate) fn has_host_port(observed: &Observed, port: &HostPort) -> bool {
    let keys = |set: &str| observed.sets.get(set).into_iter().flat_map(|it| it.elements.keys());
    let of_all = Value::new().protocol(protocol_number(port.protocol)).port(port.host_port);
    if keys(HOST_PORTS).any(|it| it.start == of_all) {
        return true;
    }
    let is_same_port = |key: &Key| key.start.as_bytes().get(ADDRESS..) == Some(of_all.as_bytes());
    keys(HOST_ADDRESS_PORTS).filter(|it| is_same_port(it)).any(|it| match host_address(port) {
        Ok(Some(address)) => it.start.as_bytes().get(..ADDRESS) == Some(&address.octets()),
        _ => true,
    })
}

/// Length of an address at the front of a key.
const ADDRESS: usize = 4;

/// What one pod adds to the sets and maps.
fn pod_elements(pod: &Record) -> Vec<(&'static str, Key, Option<Data>)> {
    let hairpin = Value::new().address(pod.address).address(pod.address);
    let mut elements = vec![(HAIRPINS, Key::from(hairpin), None)];
    for port in &pod.host_ports {
        let number = protocol_number(port.protocol);
        let target = Value::new().address(pod.address).port(port.container_port);
        // What cannot be said was refused when the pod was attached.
        let Ok(address) = host_address(port) else { continue };
        let (set, start) = match address {
            None => (HOST_PORTS, Value::new()),
            Some(address) => (HOST_ADDRESS_PORTS, Value::new().address(address)),
        };
        let key = start.protocol(number).port(port.host_port);
        elements.push((set, Key::from(key), Some(Data::Value(target))));
    }
    elements
}

fn chains(settings: &Settings) -> BTreeMap<String, Chain> {
    let at = |kind, point, priority, rules| Chain::at(Hook::new(kind, point, priority), rules);
    let nat = |point, rules| at(ChainKind::Nat, point, priority::DESTINATION_NAT, rules);
    let guard = vec![own_address(settings.group), no_loopback(settings.group)];
    let sources = vec![
        loopback_clients(settings),
        hairpins(settings.pods.gateway()),
        egress(settings.pods, settings.cluster),
    ];
    let source_nat = priority::SOURCE_NAT;
    let raw = at(ChainKind::Filter, HookPoint::Prerouting, PRIORITY_RAW, guard);
    BTreeMap::from([
        ("guard".into(), raw),
        ("host-ports-forwarded".into(), nat(HookPoint::Prerouting, destinations())),
        ("host-ports-local".into(), nat(HookPoint::Output, destinations())),
        ("sources".into(), at(ChainKind::Nat, HookPoint::Postrouting, source_nat, sources)),
    ])
}

fn from_pods(group: u32) -> Vec<Expression> {
    vec![load(Meta::InputGroup), equal(Value::new().mark(group))]
}

/// Over each pod's link only the pod's own address is routed back. `rp_filter` of the link says the
/// same, but it is anybody's to change: a line in `sysctl.d`, as other network software brings one,
/// sets it to 0 for every link that comes up.
fn own_address(group: u32) -> Rule {
    let mut expressions = from_pods(group);
    expressions.push(Expression::FibReturns { into: Register(0) });
    expressions.push(equal(Value::new().protocol(0)));
    expressions.push(Expression::Verdict(Verdict::Drop));
    Rule::new("pods send from their own address", expressions)
}

/// Links of pods let 127.0.0.0/8 pass so that the node's own clients can use host ports on it; no
/// pod may use that to reach what listens on the node's loopback. Answers to such clients come with
/// the gateway as destination, so no packet on the wire has a reason to carry a loopback address.
fn no_loopback(group: u32) -> Rule {
    let mut expressions = from_pods(group);
    expressions.extend(is_in(DESTINATION, loopback(), Comparison::Equal));
    expressions.push(Expression::Verdict(Verdict::Drop));
    Rule::new("pods do not reach the node's loopback", expressions)
}

/// From wherever the packet comes, if it is for the node itself.
fn destinations() -> Vec<Rule> {
    let is_local = || {
        let into = Register(0);
        let address = FibAddress::Destination;
        [Expression::FibType { address, into }, equal(Value::new().mark(FIB_LOCAL))]
    };
    let to_pod = |set| {
        let (address, port) = (Register(4), Some(Register(5)));
        [
            Expression::Lookup { set, key: Register(0), target: Target::Register(address) },
            Expression::Nat { kind: Nat::Destination, address, port, flags: 0 },
        ]
    };
    let mut of_address: Vec<_> = is_local().into();
    of_address.push(load_address(DESTINATION, 0));
    of_address.extend(load_protocol_and_port(1));
    of_address.extend(to_pod(HOST_ADDRESS_PORTS));
    let mut of_all: Vec<_> = is_local().into();
    of_all.extend(load_protocol_and_port(0));
    of_all.extend(to_pod(HOST_PORTS));
    vec![
        Rule::new("host ports of one address", of_address),
        Rule::new("host ports of all addresses", of_all),
    ]
}

/// A client on 127.0.0.1 would be answered on the pod's own loopback.
fn loopback_clients(settings: &Settings) -> Rule {
    let mut expressions = vec![load(Meta::OutputGroup), equal(Value::new().mark(settings.group))];
    expressions.extend(is_in(SOURCE, loopback(), Comparison::Equal));
    expressions.extend(source_becomes(settings.pods.gateway()));
    Rule::new("the node's loopback is seen as the gateway", expressions)
}

/// A pod that reaches itself by a Service or a host port would see a packet from its own address,
/// and drop it.
fn hairpins(gateway: Ipv4Addr) -> Rule {
    let key = Register(0);
    let mut expressions = vec![
        load_address(SOURCE, 0),
        load_address(DESTINATION, 1),
        Expression::Lookup { set: HAIRPINS, key, target: Target::Member },
    ];
    expressions.extend(source_becomes(gateway));
    Rule::new("a pod that reaches itself sees the gateway", expressions)
}

fn egress(pods: Range, cluster: Range) -> Rule {
    let multicast = Range::new(Ipv4Addr::new(224, 0, 0, 0), 4);
    let mut expressions = Vec::new();
    expressions.extend(is_in(SOURCE, pods, Comparison::Equal));
    expressions.extend(is_in(DESTINATION, cluster, Comparison::NotEqual));
    expressions.extend(is_in(DESTINATION, multicast, Comparison::NotEqual));
    expressions.push(Expression::Masquerade { flags: nat_flags::FULLY_RANDOM });
    Rule::new("the world sees the node, not the pod", expressions)
}

fn loopback() -> Range {
    Range::new(Ipv4Addr::new(127, 0, 0, 0), 8)
}

fn load(key: Meta) -> Expression {
    Expression::Meta { key, into: Register(0) }
}

fn load_address(offset: u32, into: u8) -> Expression {
    Expression::Payload { base: Base::Network, offset, length: 4, into: Register(into) }
}

/// Into two registers from this one on.
fn load_protocol_and_port(first: u8) -> [Expression; 2] {
    let (base, offset, into) = (Base::Transport, DESTINATION_PORT, Register(first + 1));
    [
        Expression::Meta { key: Meta::L4Protocol, into: Register(first) },
        Expression::Payload { base, offset, length: 2, into },
    ]
}

fn equal(value: Value) -> Expression {
    compare(Comparison::Equal, value)
}

fn compare(comparison: Comparison, value: Value) -> Expression {
    Expression::Compare { from: Register(0), comparison, value }
}

fn is_in(offset: u32, range: Range, comparison: Comparison) -> [Expression; 3] {
    let mask = Value::new().address(network_mask(range.prefix_length()));
    let xor = Value::new().address(Ipv4Addr::UNSPECIFIED);
    [
        load_address(offset, 0),
        Expression::Bitwise { from: Register(0), into: Register(0), mask, xor },
        compare(comparison, Value::new().address(range.network())),
    ]
}

fn source_becomes(address: Ipv4Addr) -> [Expression; 2] {
    let into = Register(0);
    [
        Expression::Immediate { into, value: Value::new().address(address) },
        Expression::Nat { kind: Nat::Source, address: into, port: None, flags: 0 },
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use node_api::network::{HostPort, Protocol};
    use node_api::{PodRef, PodUid};

    fn settings() -> Settings {
        Settings {
            pods: Range::new(Ipv4Addr::new(10, 244, 1, 0), 24),
            cluster: Range::new(Ipv4Addr::new(10, 244, 0, 0), 16),
            group: 7,
        }
    }

    fn pod(last: u8, host_ports: Vec<HostPort>) -> Record {
        let pod = PodRef { namespace: "n".into(), name: "p".into(), uid: PodUid::new("u") };
        Record { pod, address: Ipv4Addr::new(10, 244, 1, last), host_ports }
    }

    #[test]
    fn a_pod_is_elements_and_no_rule() {
        let address = Some(Ipv4Addr::LOCALHOST.into());
        let (protocol, host_port, container_port) = (Protocol::Udp, 53, 5353);
        let ports = vec![
            HostPort { protocol, host_address: None, host_port: 80, container_port },
            HostPort { protocol, host_address: address, host_port, container_port },
        ];
        let empty = table(&settings(), [].iter());
        let one = table(&settings(), [pod(9, ports)].iter());
        assert_eq!((&empty.chains, &empty.sets), (&one.chains, &one.sets));
        assert!(empty.elements.values().all(BTreeMap::is_empty));
        let target = || {
            let address = Ipv4Addr::new(10, 244, 1, 9);
            Some(Data::Value(Value::new().address(address).port(5353)))
        };
        let all = Key::from(Value::new().protocol(17).port(80));
        let local = Value::new().address(Ipv4Addr::LOCALHOST).protocol(17).port(53);
        assert_eq!(one.elements[HOST_PORTS], BTreeMap::from([(all, target())]));
        assert_eq!(one.elements[HOST_ADDRESS_PORTS], BTreeMap::from([(local.into(), target())]));
        assert_eq!(one.elements[HAIRPINS].len(), 1);
    }

    #[test]
    fn a_pod_that_stays_as_it_is_changes_nothing() {
        let port = |host_port| HostPort {
            protocol: Protocol::Tcp,
            host_address: None,
            host_port,
            container_port: 80,
        };
        let check = |before: Option<&Record>, after: Option<&Record>, n_changes: usize| {
            assert_eq!(pod_changes(before, after).len(), n_changes, "{before:?} {after:?}");
        };
        let (bare, with_port) = (pod(9, vec![]), pod(9, vec![port(80)]));
        check(None, None, 0);
        check(Some(&with_port), Some(&with_port), 0);
        check(None, Some(&bare), 1);
        check(None, Some(&with_port), 2);
        check(Some(&with_port), None, 2);
        check(Some(&with_port), Some(&bare), 1);
        // Removed and added at once.
        check(Some(&with_port), Some(&pod(9, vec![port(81)])), 2);
    }
}
