//! The nftables tables `ip xebec-<cluster>-network` and `ip6 xebec-<cluster>-network`, described
//! whole. Pure.
//!
//! Rules never change; pods are elements of sets and maps, so that a pod that comes or goes costs
//! the same whatever the number of pods. A family in which pods have no addresses has a table that
//! lets nothing in from them (router advertisements, CVE-2020-10749).

use std::collections::BTreeMap;
use std::net::IpAddr;

use linux::netlink::nftables::draft::{self, ENDPOINT, table_family};
use linux::netlink::nftables::expression::{Base, Comparison};
use linux::netlink::nftables::{
    Chain, ChainKind, Change, Data, Draft, Expression, Field, Hook, HookPoint, Key, Observed,
    Register, Rule, Set, Table, TableId, Value, element_changes, priority,
};
use node_api::ClusterId;
use node_api::network::HostPort;
use stdx::{Cidr, Family};

use crate::host_ports::{On, on, protocol_number};
use crate::node::PodRange;
use crate::records::Record;

const NAME: &str = "network";

pub(crate) fn id(cluster: ClusterId, family: Family) -> TableId {
    TableId::new(table_family(family), cluster.table(NAME))
}

/// Whose pod network the table is; `None` for any other table, and for the second of a cluster's
/// two.
pub(crate) fn cluster_of(id: &TableId) -> Option<ClusterId> {
    let words = id.name.strip_prefix("xebec-")?.strip_suffix(NAME)?;
    let cluster = words.strip_suffix('-')?.parse().ok()?;
    (*id == self::id(cluster, Family::V4)).then_some(cluster)
}

/// From protocol and port to a pod's address and port.
const HOST_PORTS: &str = "host-ports";
/// The same for ports on one address of the node.
const HOST_ADDRESS_PORTS: &str = "host-address-ports";
/// Every pod's address with itself.
const HAIRPINS: &str = "hairpins";

const SETS: [&str; 3] = [HOST_PORTS, HOST_ADDRESS_PORTS, HAIRPINS];

const PORT: &[Field] = &[Field::Protocol, Field::DestinationPort];
const ADDRESS_AND_PORT: &[Field] = &[Field::Destination, Field::Protocol, Field::DestinationPort];
const ENDS: &[Field] = &[Field::Source, Field::Destination];

/// The chain of what is looked at first.
const GUARD: &str = "guard";

/// Before conntrack looks at packets (`NF_IP_PRI_RAW`).
const PRIORITY_RAW: i32 = -300;

/// `group` is that of the host ends of the pods' links.
pub(crate) fn table<'a>(
    range: &PodRange,
    group: u32,
    pods: impl Iterator<Item = &'a Record>,
) -> Table {
    let family = range.family();
    let mut elements: BTreeMap<_, BTreeMap<_, _>> = SETS.map(|it| (it, BTreeMap::new())).into();
    for pod in pods {
        for (set, key, data) in pod_elements(pod, family) {
            elements.entry(set).or_default().insert(key, data);
        }
    }
    let types = |fields| draft::types(family, fields);
    let sets = BTreeMap::from([
        (HOST_PORTS, Set::map(types(PORT), types(ENDPOINT))),
        (HOST_ADDRESS_PORTS, Set::map(types(ADDRESS_AND_PORT), types(ENDPOINT))),
        (HAIRPINS, Set::of(types(ENDS))),
    ]);
    Table { chains: chains(range, group), sets, elements }
}

/// Of a family that pods do not have: what comes from them by it is not for us.
pub(crate) fn closed(family: Family, group: u32) -> Table {
    let comment = format!("pods do not speak {family}");
    let rules = vec![Rule::draft(family, comment).input_group(group).drop()];
    let chains = BTreeMap::from([(GUARD.into(), guard(rules))]);
    Table { chains, ..Table::default() }
}

/// What changes when a pod comes, goes or gets other host ports.
pub(crate) fn pod_changes(
    before: Option<&Record>,
    after: Option<&Record>,
    family: Family,
) -> Vec<Change> {
    let elements_in = |pod: Option<&Record>, set| {
        let elements = pod.map(|it| pod_elements(it, family)).unwrap_or_default();
        elements
            .into_iter()
            .filter(|(it, _, _)| *it == set)
            .map(|(_, key, data)| (key, data))
            .collect()
    };
    SETS.into_iter()
        .flat_map(|set| element_changes(set, &elements_in(before, set), &elements_in(after, set)))
        .collect()
}

/// Whether a table of this family that another cluster made sends this port of the host to one of
/// its pods. A port on all addresses meets those on any.
pub(crate) fn has_host_port(observed: &Observed, port: &HostPort, family: Family) -> bool {
    // Whether its pods have both families is not known here: what is said to be on all is.
    let Some(on) = on(port, family, false) else { return false };
    let keys = |set: &str| observed.sets.get(set).into_iter().flat_map(|it| it.elements.keys());
    let of_all = Value::new().protocol(protocol_number(port.protocol)).port(port.host_port);
    if keys(HOST_PORTS).any(|it| it.start == of_all) {
        return true;
    }
    let length = usize::from(family.bits() / 8);
    let is_same_port = |key: &Key| key.start.as_bytes().get(length..) == Some(of_all.as_bytes());
    keys(HOST_ADDRESS_PORTS).filter(|it| is_same_port(it)).any(|it| match on {
        On::One(address) => {
            it.start.as_bytes().get(..length) == Some(Value::new().address(address).as_bytes())
        }
        On::All => true,
    })
}

/// What one pod adds to the sets and maps of one family.
fn pod_elements(pod: &Record, family: Family) -> Vec<(&'static str, Key, Option<Data>)> {
    let Some(address) = pod.address(family) else { return Vec::new() };
    let hairpin = Value::new().address(address).address(address);
    let mut elements = vec![(HAIRPINS, Key::from(hairpin), None)];
    for port in &pod.host_ports {
        let number = protocol_number(port.protocol);
        let target = Value::new().address(address).port(port.container_port);
        let (set, start) = match on(port, family, pod.addresses.len() > 1) {
            None => continue,
            Some(On::All) => (HOST_PORTS, Value::new()),
            Some(On::One(address)) => (HOST_ADDRESS_PORTS, Value::new().address(address)),
        };
        let key = start.protocol(number).port(port.host_port);
        elements.push((set, Key::from(key), Some(Data::Value(target))));
    }
    elements
}

fn chains(range: &PodRange, group: u32) -> BTreeMap<String, Chain> {
    let nat = |point, priority, rules| Chain::at(Hook::new(ChainKind::Nat, point, priority), rules);
    let family = range.family();
    let ports = |point| nat(point, priority::DESTINATION_NAT, destinations(family));
    let sources = vec![loopback_clients(range, group), hairpins(range), egress(range)];
    let sources = nat(HookPoint::Postrouting, priority::SOURCE_NAT, sources);
    let mut first = vec![own_address(family, group), no_loopback(family, group)];
    first.extend((family == Family::V6).then(|| no_discovery(group)));
    BTreeMap::from([
        (GUARD.into(), guard(first)),
        ("host-ports-forwarded".into(), ports(HookPoint::Prerouting)),
        ("host-ports-local".into(), ports(HookPoint::Output)),
        ("sources".into(), sources),
    ])
}

fn guard(rules: Vec<Rule>) -> Chain {
    Chain::at(Hook::new(ChainKind::Filter, HookPoint::Prerouting, PRIORITY_RAW), rules)
}

/// Over each pod's link only the pod's own addresses are routed back. `rp_filter` of the link says
/// the same of IPv4, but it is anybody's to change: a line in `sysctl.d`, as other network software
/// brings one, sets it to 0 for every link that comes up. With link-local sources, which are routed
/// nowhere, a pod advertises and redirects in vain.
fn own_address(family: Family, group: u32) -> Rule {
    Rule::draft(family, "pods send from their own address")
        .input_group(group)
        .source_is_not_routed_back()
        .drop()
}

/// Links of pods let 127.0.0.0/8 pass so that the node's own clients can use host ports on it; no
/// pod may use that to reach what listens on the node's loopback. Answers to such clients come with
/// the gateway as destination, so no packet on the wire has a reason to carry a loopback address.
fn no_loopback(family: Family, group: u32) -> Rule {
    Rule::draft(family, "pods do not reach the node's loopback")
        .input_group(group)
        .destination_in(loopback(family))
        .drop()
}

/// Router solicitation, router advertisement, neighbor solicitation and advertisement, redirect
/// (RFC 4861). Both ends of a pod's link know each other for good: there is nothing to discover.
fn no_discovery(group: u32) -> Rule {
    const ICMPV6: u8 = 58;
    const FIRST: u8 = 133;
    const LAST: u8 = 137;
    let comment = "pods have nothing to discover and nothing to advertise";
    let mut rule: Rule =
        Rule::draft(Family::V6, comment).input_group(group).protocol(ICMPV6).into();
    let (base, into) = (Base::Transport, Register(0));
    rule.expressions.push(Expression::Payload { base, offset: 0, length: 1, into });
    for (comparison, kind) in [(Comparison::GreaterOrEqual, FIRST), (Comparison::LessOrEqual, LAST)]
    {
        let value = Value::raw(&[kind]);
        rule.expressions.push(Expression::Compare { from: into, comparison, value });
    }
    let verdict = Expression::Verdict(linux::netlink::nftables::Verdict::Drop);
    rule.expressions.push(verdict);
    rule
}

/// Who is no node must not send what nodes take for each other's: it would come out of the tunnel
/// as a packet of any pod's. What a pod sends to another pod in tunnels of its own is its business.
pub(crate) fn no_tunnels_of_pods(
    range: &PodRange,
    cluster: ClusterId,
    protocol: u8,
    port: Option<u16>,
) -> Rule {
    let draft = Rule::draft(range.family(), "pods do not speak as nodes")
        .input_group(cluster.link_group())
        .destination_not_in(range.cluster)
        .protocol(protocol);
    let Some(port) = port else { return draft.drop() };
    let mut rule: Rule = draft.into();
    let (base, into) = (Base::Transport, Register(0));
    rule.expressions.push(Expression::Payload { base, offset: 2, length: 2, into });
    let (comparison, value) = (Comparison::Equal, Value::raw(&port.to_be_bytes()));
    rule.expressions.push(Expression::Compare { from: into, comparison, value });
    rule.expressions.push(Expression::Verdict(linux::netlink::nftables::Verdict::Drop));
    rule
}

/// Among the rules that are looked at first.
pub(crate) fn add_guard(tables: &mut BTreeMap<Family, Table>, family: Family, rule: Rule) {
    let chains = tables.get_mut(&family).map(|it| &mut it.chains);
    if let Some(guard) = chains.and_then(|it| it.get_mut(GUARD)) {
        guard.rules.push(rule);
    }
}

/// From wherever the packet comes, if it is for the node itself. Answers to `::1` would not be
/// routed: there the port is the node's own.
fn destinations(family: Family) -> Vec<Rule> {
    let local = |comment: &str| -> Draft {
        let draft = Rule::draft(family, comment).destination_is_local();
        match family {
            Family::V4 => draft,
            Family::V6 => draft.destination_not_in(loopback(family)),
        }
    };
    vec![
        local("host ports of one address").dnat_by(HOST_ADDRESS_PORTS, ADDRESS_AND_PORT),
        local("host ports of all addresses").dnat_by(HOST_PORTS, PORT),
    ]
}

/// A client on 127.0.0.1 would be answered on the pod's own loopback.
fn loopback_clients(range: &PodRange, group: u32) -> Rule {
    Rule::draft(range.family(), "the node's loopback is seen as the gateway")
        .output_group(group)
        .source_in(loopback(range.family()))
        .snat_to(range.gateway())
}

/// A pod that reaches itself by a Service or a host port would see a packet from its own address,
/// and drop it.
fn hairpins(range: &PodRange) -> Rule {
    Rule::draft(range.family(), "a pod that reaches itself sees the gateway")
        .is_in(HAIRPINS, ENDS)
        .snat_to(range.gateway())
}

fn egress(range: &PodRange) -> Rule {
    Rule::draft(range.family(), "the world sees the node, not the pod")
        .source_in(range.node)
        .destination_not_in(range.cluster)
        .destination_not_in(multicast(range.family()))
        .masquerade()
}

fn loopback(family: Family) -> Cidr {
    match family {
        Family::V4 => within([127, 0, 0, 0].into(), 8),
        Family::V6 => Cidr::host(std::net::Ipv6Addr::LOCALHOST.into()),
    }
}

fn multicast(family: Family) -> Cidr {
    match family {
        Family::V4 => within([224, 0, 0, 0].into(), 4),
        Family::V6 => within([0xff00, 0, 0, 0, 0, 0, 0, 0].into(), 8),
    }
}

fn within(address: IpAddr, prefix_length: u8) -> Cidr {
    Cidr::containing(address, prefix_length).unwrap_or_else(|| Cidr::host(address))
}

#[cfg(test)]
mod tests {
    use super::*;
    use node_api::network::Protocol;
    use node_api::{PodRef, PodUid};

    fn range(node: &str, cluster: &str) -> PodRange {
        PodRange { node: node.parse().unwrap(), cluster: cluster.parse().unwrap() }
    }

    fn ranges() -> [PodRange; 2] {
        [range("10.244.1.0/24", "10.244.0.0/16"), range("fd00:10:244:1::/64", "fd00:10:244::/56")]
    }

    fn pod(last: u8, host_ports: Vec<HostPort>) -> Record {
        let pod = PodRef { namespace: "n".into(), name: "p".into(), uid: PodUid::new("u") };
        let nth = |it: PodRange| it.node.nth(last.into()).unwrap();
        let kind = crate::links::Kind::default();
        Record { pod, addresses: ranges().map(nth).into(), host_ports, kind }
    }

    #[test]
    fn a_pod_is_elements_and_no_rule() {
        for (range, local) in ranges().iter().zip(["127.0.0.1", "fd00:2::1"]) {
            let local: IpAddr = local.parse().unwrap();
            let (protocol, host_port, container_port) = (Protocol::Udp, 53, 5353);
            let host_address = Some(local);
            let ports = vec![
                HostPort { protocol, host_address: None, host_port: 80, container_port },
                HostPort { protocol, host_address, host_port, container_port },
            ];
            let empty = table(range, 7, [].iter());
            let one = table(range, 7, [pod(9, ports)].iter());
            assert_eq!((&empty.chains, &empty.sets), (&one.chains, &one.sets));
            assert!(empty.elements.values().all(BTreeMap::is_empty));
            let address = range.node.nth(9).unwrap();
            let target = || Some(Data::Value(Value::new().address(address).port(5353)));
            let all = Key::from(Value::new().protocol(17).port(80));
            let local = Value::new().address(local).protocol(17).port(53);
            assert_eq!(one.elements[HOST_PORTS], BTreeMap::from([(all, target())]));
            let of_address = BTreeMap::from([(local.into(), target())]);
            assert_eq!(one.elements[HOST_ADDRESS_PORTS], of_address);
            assert_eq!(one.elements[HAIRPINS].len(), 1);
        }
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
            for family in [Family::V4, Family::V6] {
                let changes = pod_changes(before, after, family);
                assert_eq!(changes.len(), n_changes, "{before:?} {after:?}");
            }
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

    #[test]
    fn a_port_of_one_family_is_in_one_table() {
        let port = |address: &str| HostPort {
            protocol: Protocol::Tcp,
            host_address: Some(address.parse().unwrap()),
            host_port: 80,
            container_port: 80,
        };
        let check = |address: &str, n_v4: usize, n_v6: usize| {
            let pod = pod(9, vec![port(address)]);
            let count = |family| pod_elements(&pod, family).len() - 1;
            assert_eq!((count(Family::V4), count(Family::V6)), (n_v4, n_v6), "{address}");
        };
        check("0.0.0.0", 1, 0);
        check("::", 0, 1);
        check("192.0.2.1", 1, 0);
        check("fd00::1", 0, 1);
    }

    #[test]
    fn a_family_that_pods_do_not_have_lets_nothing_in() {
        let table = closed(Family::V4, 7);
        let comments: Vec<_> =
            table.chains.values().flat_map(|it| &it.rules).map(|it| &it.comment).collect();
        assert_eq!(comments, ["pods do not speak IPv4"]);
        assert_eq!(closed(Family::V6, 7).chains["guard"].rules.len(), 1);
    }
}
