//! The chains of our table, which do not depend on Services but for the choices that some Service
//! needs. Pure.
//!
//! `README.md` shows the way of a packet through them. A rule loads all that it reads, since
//! registers do not outlive it. `nft` must be able to list every rule, or no command of it works on
//! this host any more: what a map gave is no key, nor part of one, nor stored, but for [`copy`].

use std::net::Ipv4Addr;
use std::time::Duration;

use linux::netlink::nftables::expression::{
    Base, Comparison, Conntrack, FIB_LOCAL, FibAddress, Generator, Meta, Nat, Reject, SetOperation,
    Target, ct_state, ct_status, nat_flags, network_mask,
};
use linux::netlink::nftables::{
    Chain, ChainKind, Expression, Hook, HookPoint, Register, Rule, Value, Verdict, priority,
};

use super::sets::{self, Choice, Scope};
use crate::service_port::Network;

/// Upstream's bit (`--iptables-masquerade-bit` 14), so that other software that knows it
/// understands.
const MASQUERADE_MARK: u32 = 0x4000;

const SERVICES: &str = "services";
const NO_ENDPOINTS: &str = "no-endpoints";
const REFUSE: &str = "refuse";

const TCP: u8 = 6;

/// What the chains depend on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Networks {
    /// All pods. Others that use a ClusterIP are masqueraded, so that the answer comes back through
    /// this node.
    pub cluster: Network,
    /// All ClusterIPs.
    pub services: Network,
}

/// What names the frontend that a packet is sent to.
#[derive(Clone, Copy)]
enum Way {
    /// Its destination: a ClusterIP or an external address.
    Address,
    /// Only the port of its destination, under address 0.0.0.0.
    NodePort,
}

const WAYS: [Way; 2] = [Way::Address, Way::NodePort];

const fn r(number: u8) -> Register {
    Register(number)
}

fn rule(comment: &str, parts: impl IntoIterator<Item = Vec<Expression>>) -> Rule {
    Rule::new(comment, parts.into_iter().flatten().collect())
}

fn source(into: Register) -> Expression {
    Expression::Payload { base: Base::Network, offset: 12, length: 4, into }
}

fn destination(into: Register) -> Expression {
    Expression::Payload { base: Base::Network, offset: 16, length: 4, into }
}

fn destination_port(into: Register) -> Expression {
    Expression::Payload { base: Base::Transport, offset: 2, length: 2, into }
}

/// Protocol, address and port that the packet is sent to, into three registers.
fn frontend(way: Way, first: u8) -> Vec<Expression> {
    let address = r(first + 1);
    let mut expressions =
        vec![Expression::Meta { key: Meta::L4Protocol, into: r(first) }, destination(address)];
    if matches!(way, Way::NodePort) {
        // `nft` shows it as `ip daddr & 0.0.0.0`; of a mere constant in a key it would not know the
        // type.
        let (mask, xor) = (Value::new().mark(0), Value::new().mark(0));
        expressions.push(Expression::Bitwise { from: address, into: address, mask, xor });
    }
    expressions.push(destination_port(r(first + 2)));
    expressions
}

fn load(set: &'static str, key: u8, into: u8) -> Expression {
    Expression::Lookup { set, key: r(key), target: Target::Register(r(into)) }
}

fn member(set: &'static str, key: u8) -> Expression {
    Expression::Lookup { set, key: r(key), target: Target::Member }
}

fn compare(from: Register, comparison: Comparison, value: Value) -> Expression {
    Expression::Compare { from, comparison, value }
}

fn within(address: Expression, network: Network, comparison: Comparison) -> Vec<Expression> {
    let mask = network_mask(network.prefix_length);
    vec![
        address,
        Expression::Bitwise {
            from: r(0),
            into: r(0),
            mask: Value::new().address(mask),
            xor: Value::new().address(Ipv4Addr::UNSPECIFIED),
        },
        compare(r(0), comparison, Value::new().address(network.address & mask)),
    ]
}

fn from_cluster(networks: Networks) -> Vec<Expression> {
    within(source(r(0)), networks.cluster, Comparison::Equal)
}

fn from_outside(networks: Networks) -> Vec<Expression> {
    within(source(r(0)), networks.cluster, Comparison::NotEqual)
}

fn is_local(address: FibAddress) -> Vec<Expression> {
    vec![
        Expression::FibType { address, into: r(0) },
        compare(r(0), Comparison::Equal, Value::new().mark(FIB_LOCAL)),
    ]
}

/// Whether any of these bits is set in a number of connection tracking.
fn conntrack_has(key: Conntrack, bits: u32, comparison: Comparison) -> Vec<Expression> {
    vec![
        Expression::Conntrack { key, direction: None, into: r(0) },
        and_xor(bits, 0),
        compare(r(0), comparison, Value::new().mark(0)),
    ]
}

fn and_xor(mask: u32, xor: u32) -> Expression {
    let (mask, xor) = (Value::new().mark(mask), Value::new().mark(xor));
    Expression::Bitwise { from: r(0), into: r(0), mask, xor }
}

fn is_new() -> Vec<Expression> {
    conntrack_has(Conntrack::State, ct_state::NEW, Comparison::NotEqual)
}

fn mark_for_masquerade() -> Vec<Expression> {
    vec![
        Expression::Meta { key: Meta::Mark, into: r(0) },
        and_xor(!MASQUERADE_MARK, MASQUERADE_MARK),
        Expression::SetMeta { key: Meta::Mark, from: r(0) },
    ]
}

fn verdict(verdict: Verdict) -> Vec<Expression> {
    vec![Expression::Verdict(verdict)]
}

fn jump(chain: impl Into<String>) -> Vec<Expression> {
    verdict(Verdict::Jump(chain.into()))
}

fn goto(chain: impl Into<String>) -> Vec<Expression> {
    verdict(Verdict::Goto(chain.into()))
}

/// To the chain that chooses an endpoint of the packet's frontend, by this map.
fn choose(way: Way, by: &'static str) -> Vec<Expression> {
    let to_chain = Expression::Lookup { set: by, key: r(0), target: Target::Verdict };
    [frontend(way, 0), vec![to_chain]].concat()
}

/// To the endpoint whose address and port are in these registers.
fn translate(address: u8) -> Expression {
    let port = Some(r(address + 1));
    Expression::Nat { kind: Nat::Destination, address: r(address), port, flags: 0 }
}

/// All chains but those of choices.
pub(super) fn all(networks: Networks) -> Vec<(String, Chain)> {
    let at = |kind, point, priority, rules| Chain::at(Hook::new(kind, point, priority), rules);
    let to_services = || vec![rule("Services", [jump(SERVICES)])];
    let nat = |point| at(ChainKind::Nat, point, priority::DESTINATION_NAT, to_services());
    let filter = |point, rules| at(ChainKind::Filter, point, priority::FILTER, rules);
    let source_nat = priority::SOURCE_NAT;
    let mut chains = vec![
        ("nat-prerouting", nat(HookPoint::Prerouting)),
        ("nat-output", nat(HookPoint::Output)),
        ("nat-postrouting", at(ChainKind::Nat, HookPoint::Postrouting, source_nat, masquerade())),
        ("filter-input", filter(HookPoint::Input, input())),
        ("filter-forward", filter(HookPoint::Forward, forward(networks))),
        ("filter-output", filter(HookPoint::Output, vec![validate_endpoints()])),
        (SERVICES, Chain::of(services(networks))),
        (NO_ENDPOINTS, Chain::of(no_endpoints(networks))),
        (REFUSE, Chain::of(refuse())),
    ];
    for way in [Way::Address, Way::NodePort] {
        let (any, local) = external_chains(way);
        chains.push((any, Chain::of(external(way))));
        chains.push((local, Chain::of(external_local(way, networks))));
    }
    chains.into_iter().map(|(name, chain)| (name.to_owned(), chain)).collect()
}

/// The names of the chains for external traffic, and for such that stays on this node.
fn external_chains(way: Way) -> (&'static str, &'static str) {
    match way {
        Way::Address => ("external-addresses", "external-addresses-local"),
        Way::NodePort => ("node-ports", "node-ports-local"),
    }
}

fn services(networks: Networks) -> Vec<Rule> {
    let cluster_ip = vec![destination(r(0)), member(sets::CLUSTER_IPS, 0)];
    let to_address = |set| [frontend(Way::Address, 0), vec![member(set, 0)]].concat();
    let to_node_port = |set| {
        let is_in = [frontend(Way::NodePort, 0), vec![member(set, 0)]].concat();
        [is_local(FibAddress::Destination), is_in].concat()
    };
    let (address, address_local) = external_chains(Way::Address);
    let (node_port, node_port_local) = external_chains(Way::NodePort);
    let (any, local) = (sets::EXTERNAL, sets::EXTERNAL_LOCAL);
    let guard = [
        frontend(Way::Address, 0),
        vec![
            member(sets::GUARDED, 0),
            source(r(3)),
            Expression::Lookup { set: sets::SOURCES, key: r(0), target: Target::NotMember },
        ],
        verdict(Verdict::Drop),
    ];
    vec![
        rule(
            "ClusterIP from outside the cluster",
            [from_outside(networks), cluster_ip, mark_for_masquerade()],
        ),
        rule("ClusterIP", [choose(Way::Address, sets::INTERNAL)]),
        rule("source not in loadBalancerSourceRanges", guard),
        rule("external address", [to_address(any), goto(address)]),
        rule("external address, policy Local", [to_address(local), goto(address_local)]),
        rule("node port", [to_node_port(any), goto(node_port)]),
        rule("node port, policy Local", [to_node_port(local), goto(node_port_local)]),
    ]
}

fn external(way: Way) -> Vec<Rule> {
    vec![
        rule("the answer must come back through this node", [mark_for_masquerade()]),
        rule("any endpoint", [choose(way, sets::CLUSTER)]),
    ]
}

/// The cluster itself has all endpoints to choose from: what it sends comes from no further away
/// than the ClusterIP's clients.
fn external_local(way: Way, networks: Networks) -> Vec<Rule> {
    let from_node = || is_local(FibAddress::Source);
    let any_endpoint = || choose(way, sets::CLUSTER);
    vec![
        rule("this node, which may use 127.0.0.1", [from_node(), mark_for_masquerade()]),
        rule("any endpoint for this node", [from_node(), any_endpoint()]),
        rule("any endpoint for pods", [from_cluster(networks), any_endpoint()]),
        rule("endpoints of this node, source address kept", [choose(way, sets::LOCAL)]),
    ]
}

fn masquerade() -> Vec<Rule> {
    let masquerade = || vec![Expression::Masquerade { flags: nat_flags::FULLY_RANDOM }];
    let is_marked = vec![
        Expression::Meta { key: Meta::Mark, into: r(0) },
        and_xor(MASQUERADE_MARK, 0),
        compare(r(0), Comparison::NotEqual, Value::new().mark(0)),
        Expression::Meta { key: Meta::Mark, into: r(0) },
        and_xor(!MASQUERADE_MARK, 0),
        Expression::SetMeta { key: Meta::Mark, from: r(0) },
    ];
    let is_hairpin = [
        conntrack_has(Conntrack::Status, ct_status::DESTINATION_NAT, Comparison::NotEqual),
        vec![source(r(0)), destination(r(1)), member(sets::HAIRPIN, 0)],
    ];
    vec![
        rule("marked", [is_marked, masquerade()]),
        rule("an endpoint that talks to itself", [is_hairpin.concat(), masquerade()]),
    ]
}

fn validate_endpoints() -> Rule {
    rule("new, and found no endpoint", [is_new(), jump(NO_ENDPOINTS)])
}

/// Node ports on 127.0.0.1 need `route_localnet`, which would let others reach what listens there
/// (CVE-2020-8558).
fn input() -> Vec<Rule> {
    let loopback = Network { address: Ipv4Addr::LOCALHOST, prefix_length: 8 };
    let answers = ct_state::ESTABLISHED | ct_state::RELATED;
    let from_elsewhere = vec![
        Expression::Meta { key: Meta::InputName, into: r(0) },
        compare(
            r(0),
            Comparison::NotEqual,
            linux::netlink::nftables::expression::interface_name("lo"),
        ),
    ];
    vec![
        rule(
            "loopback is not for other hosts",
            [
                within(destination(r(0)), loopback, Comparison::Equal),
                from_elsewhere,
                conntrack_has(Conntrack::State, answers, Comparison::Equal),
                verdict(Verdict::Drop),
            ],
        ),
        validate_endpoints(),
    ]
}

/// Connection tracking translates no packet that it does not understand, so an endpoint's would
/// leave under its own address, and the client would reset the connection
/// (kubernetes/kubernetes#74839).
fn forward(networks: Networks) -> Vec<Rule> {
    let is_invalid = conntrack_has(Conntrack::State, ct_state::INVALID, Comparison::NotEqual);
    vec![
        rule("not translated", [from_cluster(networks), is_invalid, verdict(Verdict::Drop)]),
        validate_endpoints(),
    ]
}

/// What still has the address of a frontend was not sent on to an endpoint.
fn no_endpoints(networks: Networks) -> Vec<Rule> {
    let is_in = |way, set| [frontend(way, 0), vec![member(set, 0)]].concat();
    let to_node_port =
        |set| [is_local(FibAddress::Destination), is_in(Way::NodePort, set)].concat();
    let to_refuse = || goto(REFUSE);
    let drop = || verdict(Verdict::Drop);
    let cluster_ip = vec![destination(r(0)), member(sets::CLUSTER_IPS, 0)];
    let service_network = within(destination(r(0)), networks.services, Comparison::Equal);
    vec![
        rule("no endpoints", [is_in(Way::Address, sets::NO_ENDPOINTS), to_refuse()]),
        rule("none on this node", [is_in(Way::Address, sets::NO_LOCAL_ENDPOINTS), drop()]),
        rule("ClusterIP without such a port", [cluster_ip, to_refuse()]),
        rule("no such ClusterIP", [service_network, to_refuse()]),
        rule("node port, no endpoints", [to_node_port(sets::NO_ENDPOINTS), to_refuse()]),
        rule("node port, none on this node", [to_node_port(sets::NO_LOCAL_ENDPOINTS), drop()]),
    ]
}

/// Upstream sends ICMP to TCP as well, of which the kernel gives each host a few per second only:
/// then connecting hangs.
fn refuse() -> Vec<Rule> {
    let is_tcp = vec![
        Expression::Meta { key: Meta::L4Protocol, into: r(0) },
        compare(r(0), Comparison::Equal, Value::raw(&[TCP])),
    ];
    vec![
        rule("TCP", [is_tcp, vec![Expression::Reject(Reject::TcpReset)]]),
        rule("others", [vec![Expression::Reject(Reject::PortUnreachable)]]),
    ]
}

/// The chains that this choice takes.
pub(super) fn of_choice(choice: Choice) -> Vec<(String, Chain)> {
    let pick = (choice.without_affinity().chain(), Chain::of(pick(choice)));
    let Some(timeout) = choice.affinity else { return vec![pick] };
    let known = (choice.known_chain(), Chain::of(known(choice.scope, timeout)));
    vec![pick, known, (choice.chain(), Chain::of(stick(choice, timeout)))]
}

fn draw(choice: Choice, into: u8) -> Expression {
    Expression::Number {
        generator: Generator::Random,
        modulus: choice.n_endpoints,
        offset: choice.scope.offset(),
        into: r(into),
    }
}

fn pick(choice: Choice) -> Vec<Rule> {
    let to_slot = || vec![draw(choice, 3), load(sets::ENDPOINTS, 0, 4), translate(4)];
    WAYS.map(|way| rule("any endpoint", [frontend(way, 0), to_slot()])).into()
}

/// Client and frontend into four registers from the first on, and what `nft` shows instead of an
/// endpoint ([`copy`]) into the next two.
fn client(way: Way) -> Vec<Expression> {
    let placeholder = vec![destination(r(4)), destination_port(r(5))];
    [vec![source(r(0))], frontend(way, 1), placeholder].concat()
}

/// Copies the endpoint that a map put into registers 8 and 9 to registers 4 and 5.
///
/// `nft` takes what a map gave for nothing at all, and dies when that is part of a key or stored.
/// But of a value over several registers it follows only the first: so register 7 is copied as
/// well, and `nft` still sees what 4 and 5 held before.
fn copy() -> Vec<Expression> {
    let mask = Value::new().mark(u32::MAX).mark(u32::MAX).mark(u32::MAX);
    let xor = Value::new().mark(0).mark(0).mark(0);
    vec![Expression::Bitwise { from: r(7), into: r(3), mask, xor }, destination_port(r(3))]
}

fn remember(operation: SetOperation, timeout: Option<Duration>) -> Expression {
    let (key, value) = (r(0), Some(r(4)));
    Expression::Dynamic { set: sets::AFFINITY, operation, key, value, timeout }
}

/// To the remembered endpoint, if it is still one, and remembers it from now on for as long again.
fn known(scope: Scope, timeout: Duration) -> Vec<Rule> {
    let to_known = || {
        let load = vec![destination_port(r(7)), load(sets::AFFINITY, 0, 8)];
        let renew = vec![
            member(scope.members(), 1),
            remember(SetOperation::Update, Some(timeout)),
            translate(8),
        ];
        [load, copy(), renew].concat()
    };
    let comment = "remembered client, if its endpoint is (here shown as daddr . dport) still one";
    WAYS.map(|way| rule(comment, [client(way), to_known()])).into()
}

/// Adding does not replace, so a remembered endpoint that is gone is forgotten first. After adding,
/// the map is asked again: of two packets at the same time both go where the first went. If the map
/// is full, nobody is remembered and any endpoint will do.
fn stick(choice: Choice, timeout: Duration) -> Vec<Rule> {
    let known = || rule("remembered client", [jump(choice.known_chain())]);
    // The kernel wants data with every change of a map, and looks at none when it deletes.
    let forget = || vec![remember(SetOperation::Delete, None)];
    let add = |way| {
        let key = [frontend(way, 10), vec![draw(choice, 13)]].concat();
        let load = vec![destination_port(r(7)), load(sets::ENDPOINTS, 10, 8)];
        [key, load, copy(), vec![remember(SetOperation::Add, Some(timeout))]].concat()
    };
    let mut rules = vec![known()];
    rules.extend(WAYS.map(|way| rule("forget an endpoint that is gone", [client(way), forget()])));
    let comment = "remember any endpoint (here shown as daddr . dport)";
    rules.extend(WAYS.map(|way| rule(comment, [client(way), add(way)])));
    rules.push(known());
    rules.push(rule("cannot remember", [goto(choice.without_affinity().chain())]));
    rules
}
