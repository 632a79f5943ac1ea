//! The chains of our tables, which do not depend on Services but for the choices that some Service
//! needs. Pure.
//!
//! `README.md` shows the way of a packet through them.

use std::net::Ipv6Addr;

use linux::netlink::nftables::expression::{ct_state, ct_status};
use linux::netlink::nftables::{Chain, ChainKind, Draft, Field, Hook, HookPoint, Rule, priority};
use stdx::{Cidr, Family};

use super::levels::Level;
use super::sets::{
    self, Choice, Scope, Way, choose_chain, client, frontend, frontend_and, pick_chain,
};
use crate::backends::Networks;

/// Upstream's bit (`--iptables-masquerade-bit` 14), so that other software that knows it
/// understands.
const MASQUERADE_MARK: u32 = 0x4000;

const SERVICES: &str = "services";
const CLUSTER_IPS: &str = "cluster-ips";
const NODE_PORT: &str = "node-port";
const NO_ENDPOINTS: &str = "no-endpoints";
const NO_ENDPOINTS_NODE_PORT: &str = "no-endpoints-node-port";
const REFUSE: &str = "refuse";

const TCP: u8 = 6;

/// What the chains of one family depend on: see [`Networks`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FamilyNetworks {
    pub(super) family: Family,
    /// `None`: everybody is outside.
    pub(super) cluster: Option<Cidr>,
    pub(super) services: Vec<Cidr>,
    /// `None`: on every address of the node.
    pub(super) node_ports: Option<Vec<Cidr>>,
}

impl FamilyNetworks {
    pub(super) fn of(family: Family, networks: &Networks) -> Self {
        let of = |ranges: &[Cidr]| -> Vec<_> {
            ranges.iter().filter(|it| it.family() == family).copied().collect()
        };
        Self {
            family,
            cluster: of(&networks.cluster).first().copied(),
            services: of(&networks.services),
            node_ports: networks.node_ports.as_deref().map(of),
        }
    }

    fn rule(&self, comment: &str) -> Draft {
        Rule::draft(self.family, comment)
    }

    fn outside(&self, rule: Draft) -> Draft {
        match self.cluster {
            Some(cluster) => rule.source_not_in(cluster),
            None => rule,
        }
    }

    /// What is sent to an address on which node ports are served: one rule for each range of them.
    fn at_node_ports(&self, comment: &str, chain: &str) -> Vec<Rule> {
        let here = || not_loopback(self.rule(comment).destination_is_local());
        match &self.node_ports {
            None => vec![here().goto(chain)],
            Some(ranges) => {
                ranges.iter().map(|it| here().destination_in(*it).goto(chain)).collect()
            }
        }
    }
}

/// All chains but those of choices.
pub(super) fn all(networks: &FamilyNetworks) -> Vec<(String, Chain)> {
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
        (CLUSTER_IPS, Chain::of(cluster_ips(networks))),
        (NODE_PORT, Chain::of(node_port(networks))),
        (NO_ENDPOINTS, Chain::of(no_endpoints(networks))),
        (NO_ENDPOINTS_NODE_PORT, Chain::of(no_endpoints_node_port(networks))),
        (REFUSE, Chain::of(refuse(networks))),
    ];
    for way in Way::BOTH {
        let (any, local) = external_chains(way);
        chains.push((any, Chain::of(external(way, networks))));
        chains.push((local, Chain::of(external_local(way, networks))));
    }
    let fixed = chains.into_iter().map(|(name, chain)| (name.to_owned(), chain));
    fixed.chain(choosing(networks)).collect()
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
    rule.is_in(set, &frontend(way))
}

/// The kernel lets nothing that came from ::1 leave the host, translated or not, and has no setting
/// for it as IPv4 has: there is no answer, so there is no node port either.
fn not_loopback(rule: Draft) -> Draft {
    match rule.family() {
        Family::V4 => rule,
        Family::V6 => rule.destination_not_in(Cidr::host(Ipv6Addr::LOCALHOST.into())),
    }
}

fn services(networks: &FamilyNetworks) -> Vec<Rule> {
    let rule = |comment| networks.rule(comment);
    let (any, local) = external_chains(Way::Address);
    let guarded = rule("source not in loadBalancerSourceRanges");
    let mut rules = vec![
        rule("ClusterIP").is_in(sets::CLUSTER_IPS, &[Field::Destination]).jump(CLUSTER_IPS),
        is_in(guarded, Way::Address, sets::GUARDED)
            .is_not_in(sets::SOURCES, &frontend_and(Way::Address, Field::Source))
            .drop(),
        is_in(rule("external address"), Way::Address, sets::EXTERNAL).goto(any),
        is_in(rule("external address, policy Local"), Way::Address, sets::EXTERNAL_LOCAL)
            .goto(local),
    ];
    rules.extend(networks.at_node_ports("address of node ports", NODE_PORT));
    rules
}

fn cluster_ips(networks: &FamilyNetworks) -> Vec<Rule> {
    let local = networks.rule("policy Local");
    let choose = |scope| choose_chain(scope, Way::Address);
    vec![
        networks
            .outside(networks.rule("from outside the cluster"))
            .set_mark(MASQUERADE_MARK)
            .into(),
        is_in(local, Way::Address, sets::INTERNAL_LOCAL).goto(choose(Scope::Local)),
        networks.rule("any endpoint").goto(choose(Scope::Cluster)),
    ]
}

fn node_port(networks: &FamilyNetworks) -> Vec<Rule> {
    let (any, local) = external_chains(Way::NodePort);
    let rule = |comment| networks.rule(comment);
    vec![
        is_in(rule("node port"), Way::NodePort, sets::EXTERNAL).goto(any),
        is_in(rule("node port, policy Local"), Way::NodePort, sets::EXTERNAL_LOCAL).goto(local),
    ]
}

fn external(way: Way, networks: &FamilyNetworks) -> Vec<Rule> {
    let mark = networks.rule("the answer must come back through this node");
    vec![
        mark.set_mark(MASQUERADE_MARK).into(),
        networks.rule("any endpoint").goto(choose_chain(Scope::Cluster, way)),
    ]
}

/// The cluster itself has all endpoints to choose from: what it sends comes from no further away
/// than the ClusterIP's clients.
fn external_local(way: Way, networks: &FamilyNetworks) -> Vec<Rule> {
    let rule = |comment| networks.rule(comment);
    let choose = |rule: Draft, scope| rule.goto(choose_chain(scope, way));
    let mark = rule("this node, which may use loopback").source_is_local();
    let from_pods = networks
        .cluster
        .map(|it| choose(rule("any endpoint for pods").source_in(it), Scope::Cluster));
    let mut rules = vec![
        mark.set_mark(MASQUERADE_MARK).into(),
        choose(rule("any endpoint for this node").source_is_local(), Scope::Cluster),
    ];
    rules.extend(from_pods);
    rules.push(choose(rule("endpoints of this node, source address kept"), Scope::Local));
    rules
}

fn masquerade(networks: &FamilyNetworks) -> Vec<Rule> {
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

fn validate_endpoints(networks: &FamilyNetworks) -> Rule {
    networks.rule("new, and found no endpoint").is_new().jump(NO_ENDPOINTS)
}

/// Node ports on 127.0.0.1 need `route_localnet`, which would let others reach what listens there
/// (CVE-2020-8558). Of IPv6 the kernel drops what comes for ::1 from elsewhere.
fn input(networks: &FamilyNetworks) -> Vec<Rule> {
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
fn forward(networks: &FamilyNetworks) -> Vec<Rule> {
    let not_translated = networks.cluster.map(|it| {
        networks.rule("not translated").source_in(it).conntrack_state(ct_state::INVALID).drop()
    });
    not_translated.into_iter().chain([validate_endpoints(networks)]).collect()
}

/// What still has the address of a frontend was not sent on to an endpoint.
fn no_endpoints(networks: &FamilyNetworks) -> Vec<Rule> {
    let rule = |comment| networks.rule(comment);
    let (none, none_here) = (sets::NO_ENDPOINTS, sets::NO_LOCAL_ENDPOINTS);
    let cluster_ip = rule("ClusterIP without such a port");
    let mut rules = vec![
        is_in(rule("no endpoints"), Way::Address, none).goto(REFUSE),
        is_in(rule("none on this node"), Way::Address, none_here).drop(),
        cluster_ip.is_in(sets::CLUSTER_IPS, &[Field::Destination]).goto(REFUSE),
    ];
    let no_such = |range: &Cidr| rule("no such ClusterIP").destination_in(*range).goto(REFUSE);
    rules.extend(networks.services.iter().map(no_such));
    rules.extend(networks.at_node_ports("address of node ports", NO_ENDPOINTS_NODE_PORT));
    rules
}

fn no_endpoints_node_port(networks: &FamilyNetworks) -> Vec<Rule> {
    let rule = |comment| networks.rule(comment);
    let (none, none_here) = (sets::NO_ENDPOINTS, sets::NO_LOCAL_ENDPOINTS);
    vec![
        is_in(rule("node port, no endpoints"), Way::NodePort, none).goto(REFUSE),
        is_in(rule("node port, none on this node"), Way::NodePort, none_here).drop(),
    ]
}

/// Upstream sends ICMP to TCP as well, of which the kernel gives each host a few per second only:
/// then connecting hangs.
fn refuse(networks: &FamilyNetworks) -> Vec<Rule> {
    vec![networks.rule("TCP").protocol(TCP).reset(), networks.rule("others").unreachable()]
}

/// The chains that choose among endpoints without remembering clients. They are made with the
/// table, while its maps are empty: for each chain that asks a map the kernel walks the map.
fn choosing(networks: &FamilyNetworks) -> impl Iterator<Item = (String, Chain)> {
    let family = networks.family;
    let ways = Scope::BOTH.into_iter().flat_map(|scope| Way::BOTH.map(|way| (scope, way)));
    ways.flat_map(move |(scope, way)| {
        let choose = (choose_chain(scope, way), Chain::of(choose(family, scope, way)));
        let pick = move |level| {
            (pick_chain(scope, way, level), Chain::of(pick(family, scope, way, level)))
        };
        Level::all().map(pick).chain([choose])
    })
}

/// Nothing is found for a frontend without endpoints.
fn choose(family: Family, scope: Scope, way: Way) -> Vec<Rule> {
    let sticky = Rule::draft(family, "with affinity").verdict_of(scope.sticky(), &frontend(way));
    let of_level = |level: Level| {
        let rule = Rule::draft(family, format!("up to {} endpoints", level.n_slots()));
        is_in(rule, way, level.set(scope)).goto(pick_chain(scope, way, level))
    };
    [sticky].into_iter().chain(Level::all().map(of_level)).collect()
}

/// The frontend and any of so many slots.
fn any_slot(scope: Scope, way: Way, n_slots: u32) -> [Field; 4] {
    frontend_and(way, Field::Random { modulus: n_slots, offset: scope.offset() })
}

/// A draw that finds an empty slot is followed by the next.
fn pick(family: Family, scope: Scope, way: Way, level: Level) -> Vec<Rule> {
    let draw = |n_slots| {
        let slot = any_slot(scope, way, n_slots);
        Rule::draft(family, "any endpoint").dnat_by(sets::ENDPOINTS, &slot)
    };
    level.draws().into_iter().map(draw).collect()
}

/// The chains that this choice takes beside those of every table.
pub(super) fn of_choice(family: Family, choice: Choice) -> Vec<(String, Chain)> {
    vec![
        (choice.known_chain(), Chain::of(vec![known(family, choice)])),
        (choice.chain(), Chain::of(stick(family, choice))),
    ]
}

/// To the remembered endpoint, if it is still one, and remembers it from now on for as long again.
fn known(family: Family, choice: Choice) -> Rule {
    let comment = "remembered client, if its endpoint is (here shown as daddr . dport) still one";
    let client = client(choice.way);
    Rule::draft(family, comment)
        .find(sets::AFFINITY, &client, &client)
        .found_is_in(choice.scope.members(), &[Field::Source])
        .renew_found(sets::AFFINITY, choice.affinity)
        .dnat_to_found()
}

/// Adding does not replace, so a remembered endpoint that is gone is forgotten first. After adding,
/// the map is asked again: of two packets at the same time both go where the first went. If the map
/// is full, nobody is remembered and any endpoint will do.
fn stick(family: Family, choice: Choice) -> Vec<Rule> {
    let Choice { affinity, scope, way, level } = choice;
    let rule = |comment| Rule::draft(family, comment);
    let known = || rule("remembered client").jump(choice.known_chain());
    let forget = rule("forget an endpoint that is gone").forget(sets::AFFINITY, &client(way));
    let remember = |n_slots| -> Rule {
        rule("remember any endpoint (here shown as daddr . dport)")
            .find(sets::ENDPOINTS, &any_slot(scope, way, n_slots), &client(way))
            .store_found(sets::AFFINITY, affinity)
            .into()
    };
    let draws = level.draws().into_iter().flat_map(|n_slots| [remember(n_slots), known()]);
    let cannot = rule("cannot remember").goto(pick_chain(scope, way, level));
    [known(), forget].into_iter().chain(draws).chain([cannot]).collect()
}
