//! The chains of our tables, which do not depend on Services but for the choices that some Service
//! needs. Pure.
//!
//! `README.md` shows the way of a packet through them.

use std::net::Ipv6Addr;
use std::time::Duration;

use linux::netlink::nftables::expression::{ct_state, ct_status};
use linux::netlink::nftables::{Chain, ChainKind, Draft, Field, Hook, HookPoint, Rule, priority};
use stdx::{Cidr, Family};

use super::sets::{self, Choice, Scope, Way, client, frontend, frontend_and};
use crate::backends::Networks;

/// Upstream's bit (`--iptables-masquerade-bit` 14), so that other software that knows it
/// understands.
const MASQUERADE_MARK: u32 = 0x4000;

const SERVICES: &str = "services";
const NO_ENDPOINTS: &str = "no-endpoints";
const REFUSE: &str = "refuse";

const TCP: u8 = 6;

const WAYS: [Way; 2] = [Way::Address, Way::NodePort];

/// What the chains of one family depend on: see [`Networks`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FamilyNetworks {
    pub(super) family: Family,
    /// `None`: everybody is outside.
    pub(super) cluster: Option<Cidr>,
    pub(super) services: Option<Cidr>,
}

impl FamilyNetworks {
    pub(super) fn of(family: Family, networks: &Networks) -> Self {
        let first = |ranges: &[Cidr]| ranges.iter().find(|it| it.family() == family).copied();
        Self { family, cluster: first(&networks.cluster), services: first(&networks.services) }
    }

    fn rule(self, comment: &str) -> Draft {
        Rule::draft(self.family, comment)
    }

    fn outside(self, rule: Draft) -> Draft {
        match self.cluster {
            Some(cluster) => rule.source_not_in(cluster),
            None => rule,
        }
    }
}

/// All chains but those of choices.
pub(super) fn all(networks: FamilyNetworks) -> Vec<(String, Chain)> {
    let at = |kind, point, priority, rules| Chain::at(Hook::new(kind, point, priority), rules);
    let to_services = || vec![networks.rule("Services").jump(SERVICES)];
    let nat = |point| at(ChainKind::Nat, point, priority::DESTINATION_NAT, to_services());
    let filter = |point, rules| at(ChainKind::Filter, point, priority::FILTER, rules);
    let (source_nat, masquerade) = (priority::SOURCE_NAT, masquerade(networks));
    let mut chains = vec![
        ("nat-prerouting", nat(HookPoint::Prerouting)),
        ("nat-output", nat(HookPoint::Output)),
        ("nat-postrouting", at(ChainKind::Nat, HookPoint::Postrouting, source_nat, masquerade)),
        ("filter-input", filter(HookPoint::Input, input(networks))),
        ("filter-forward", filter(HookPoint::Forward, forward(networks))),
        ("filter-output", filter(HookPoint::Output, vec![validate_endpoints(networks)])),
        (SERVICES, Chain::of(services(networks))),
        (NO_ENDPOINTS, Chain::of(no_endpoints(networks))),
        (REFUSE, Chain::of(refuse(networks))),
    ];
    for way in WAYS {
        let (any, local) = external_chains(way);
        chains.push((any, Chain::of(external(way, networks))));
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

/// The packet's frontend is in the set.
fn is_in(rule: Draft, way: Way, set: &'static str) -> Draft {
    match way {
        Way::Address => rule.is_in(set, &frontend(way)),
        Way::NodePort => not_loopback(rule.destination_is_local()).is_in(set, &frontend(way)),
    }
}

/// The kernel lets nothing that came from ::1 leave the host, translated or not, and has no setting
/// for it as IPv4 has: there is no answer, so there is no node port either.
fn not_loopback(rule: Draft) -> Draft {
    match rule.family() {
        Family::V4 => rule,
        Family::V6 => rule.destination_not_in(Cidr::host(Ipv6Addr::LOCALHOST.into())),
    }
}

fn services(networks: FamilyNetworks) -> Vec<Rule> {
    let rule = |comment| networks.rule(comment);
    let (address, address_local) = external_chains(Way::Address);
    let (node_port, node_port_local) = external_chains(Way::NodePort);
    let (any, local) = (sets::EXTERNAL, sets::EXTERNAL_LOCAL);
    let guarded = rule("source not in loadBalancerSourceRanges");
    vec![
        networks
            .outside(rule("ClusterIP from outside the cluster"))
            .is_in(sets::CLUSTER_IPS, &[Field::Destination])
            .set_mark(MASQUERADE_MARK)
            .into(),
        rule("ClusterIP").verdict_of(sets::INTERNAL, &frontend(Way::Address)),
        is_in(guarded, Way::Address, sets::GUARDED)
            .is_not_in(sets::SOURCES, &frontend_and(Way::Address, Field::Source))
            .drop(),
        is_in(rule("external address"), Way::Address, any).goto(address),
        is_in(rule("external address, policy Local"), Way::Address, local).goto(address_local),
        is_in(rule("node port"), Way::NodePort, any).goto(node_port),
        is_in(rule("node port, policy Local"), Way::NodePort, local).goto(node_port_local),
    ]
}

fn external(way: Way, networks: FamilyNetworks) -> Vec<Rule> {
    let mark = networks.rule("the answer must come back through this node");
    vec![
        mark.set_mark(MASQUERADE_MARK).into(),
        networks.rule("any endpoint").verdict_of(sets::CLUSTER, &frontend(way)),
    ]
}

/// The cluster itself has all endpoints to choose from: what it sends comes from no further away
/// than the ClusterIP's clients.
fn external_local(way: Way, networks: FamilyNetworks) -> Vec<Rule> {
    let rule = |comment| networks.rule(comment);
    let any_endpoint = |rule: Draft| rule.verdict_of(sets::CLUSTER, &frontend(way));
    let mark = rule("this node, which may use loopback").source_is_local();
    let from_pods =
        networks.cluster.map(|it| any_endpoint(rule("any endpoint for pods").source_in(it)));
    let mut rules = vec![
        mark.set_mark(MASQUERADE_MARK).into(),
        any_endpoint(rule("any endpoint for this node").source_is_local()),
    ];
    rules.extend(from_pods);
    let here = rule("endpoints of this node, source address kept");
    rules.push(here.verdict_of(sets::LOCAL, &frontend(way)));
    rules
}

fn masquerade(networks: FamilyNetworks) -> Vec<Rule> {
    let marked = networks.rule("marked").is_marked(MASQUERADE_MARK);
    let itself = networks.rule("an endpoint that talks to itself");
    vec![
        marked.clear_mark(MASQUERADE_MARK).masquerade(),
        itself
            .conntrack_status(ct_status::DESTINATION_NAT)
            .is_in(sets::HAIRPIN, &sets::PAIR)
            .masquerade(),
    ]
}

fn validate_endpoints(networks: FamilyNetworks) -> Rule {
    networks.rule("new, and found no endpoint").is_new().jump(NO_ENDPOINTS)
}

/// Node ports on 127.0.0.1 need `route_localnet`, which would let others reach what listens there
/// (CVE-2020-8558). Of IPv6 the kernel drops what comes for ::1 from elsewhere.
fn input(networks: FamilyNetworks) -> Vec<Rule> {
    let loopback = Cidr::containing([127, 0, 0, 0].into(), 8);
    let loopback = loopback.filter(|_| networks.family == Family::V4);
    let guard = loopback.map(|it| {
        networks
            .rule("loopback is not for other hosts")
            .destination_in(it)
            .input_is_not("lo")
            .conntrack_state_not(ct_state::ESTABLISHED | ct_state::RELATED)
            .drop()
    });
    guard.into_iter().chain([validate_endpoints(networks)]).collect()
}

/// Connection tracking translates no packet that it does not understand, so an endpoint's would
/// leave under its own address, and the client would reset the connection
/// (kubernetes/kubernetes#74839).
fn forward(networks: FamilyNetworks) -> Vec<Rule> {
    let not_translated = networks.cluster.map(|it| {
        networks.rule("not translated").source_in(it).conntrack_state(ct_state::INVALID).drop()
    });
    not_translated.into_iter().chain([validate_endpoints(networks)]).collect()
}

/// What still has the address of a frontend was not sent on to an endpoint.
fn no_endpoints(networks: FamilyNetworks) -> Vec<Rule> {
    let rule = |comment| networks.rule(comment);
    let (none, none_here) = (sets::NO_ENDPOINTS, sets::NO_LOCAL_ENDPOINTS);
    let cluster_ip = rule("ClusterIP without such a port");
    let mut rules = vec![
        is_in(rule("no endpoints"), Way::Address, none).goto(REFUSE),
        is_in(rule("none on this node"), Way::Address, none_here).drop(),
        cluster_ip.is_in(sets::CLUSTER_IPS, &[Field::Destination]).goto(REFUSE),
    ];
    rules.extend(
        networks.services.map(|it| rule("no such ClusterIP").destination_in(it).goto(REFUSE)),
    );
    rules.push(is_in(rule("node port, no endpoints"), Way::NodePort, none).goto(REFUSE));
    rules.push(is_in(rule("node port, none on this node"), Way::NodePort, none_here).drop());
    rules
}

/// Upstream sends ICMP to TCP as well, of which the kernel gives each host a few per second only:
/// then connecting hangs.
fn refuse(networks: FamilyNetworks) -> Vec<Rule> {
    vec![networks.rule("TCP").protocol(TCP).reset(), networks.rule("others").unreachable()]
}

/// The chains that this choice takes.
pub(super) fn of_choice(family: Family, choice: Choice) -> Vec<(String, Chain)> {
    let pick = (choice.without_affinity().chain(), Chain::of(pick(family, choice)));
    let Some(timeout) = choice.affinity else { return vec![pick] };
    let known = (choice.known_chain(), Chain::of(known(family, choice.scope, timeout)));
    vec![pick, known, (choice.chain(), Chain::of(stick(family, choice, timeout)))]
}

/// The frontend and any of its slots.
fn any_slot(way: Way, choice: Choice) -> [Field; 4] {
    let (modulus, offset) = (choice.n_endpoints, choice.scope.offset());
    frontend_and(way, Field::Random { modulus, offset })
}

fn pick(family: Family, choice: Choice) -> Vec<Rule> {
    let pick =
        |way| Rule::draft(family, "any endpoint").dnat_by(sets::ENDPOINTS, &any_slot(way, choice));
    WAYS.map(pick).into()
}

/// To the remembered endpoint, if it is still one, and remembers it from now on for as long again.
fn known(family: Family, scope: Scope, timeout: Duration) -> Vec<Rule> {
    let comment = "remembered client, if its endpoint is (here shown as daddr . dport) still one";
    let known = |way| {
        Rule::draft(family, comment)
            .find(sets::AFFINITY, &client(way), &client(way))
            .found_is_in(scope.members(), &[Field::Source])
            .renew_found(sets::AFFINITY, timeout)
            .dnat_to_found()
    };
    WAYS.map(known).into()
}

/// Adding does not replace, so a remembered endpoint that is gone is forgotten first. After adding,
/// the map is asked again: of two packets at the same time both go where the first went. If the map
/// is full, nobody is remembered and any endpoint will do.
fn stick(family: Family, choice: Choice, timeout: Duration) -> Vec<Rule> {
    let rule = |comment| Rule::draft(family, comment);
    let known = || rule("remembered client").jump(choice.known_chain());
    let forget = |way| {
        let rule = rule("forget an endpoint that is gone");
        rule.forget(sets::AFFINITY, &client(way))
    };
    let remember = |way| {
        rule("remember any endpoint (here shown as daddr . dport)")
            .find(sets::ENDPOINTS, &any_slot(way, choice), &client(way))
            .store_found(sets::AFFINITY, timeout)
            .into()
    };
    let mut rules = vec![known()];
    rules.extend(WAYS.map(forget));
    rules.extend(WAYS.map(remember));
    rules.push(known());
    rules.push(rule("cannot remember").goto(choice.without_affinity().chain()));
    rules
}
