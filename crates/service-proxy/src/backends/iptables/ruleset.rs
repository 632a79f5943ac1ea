//! What `iptables-restore` is told of one family: all of it, or what one change touches. Pure.
//!
//! The chains of all Services together are written anew with each change, as upstream does; those of
//! single Services only where they differ.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::sync::Arc;

use apimachinery::ObjectKey;
use node_api::ClusterId;
use stdx::Family;

use super::names::{Names, is_of_service};
use super::rules::{self, FamilyNetworks, PortRules, refuse};
use super::saved::Saved;
use crate::service_port::{Protocol, ServicePort};

/// Upstream's bit (`--iptables-masquerade-bit` 14).
const MARK: &str = "0x4000";
const SERVICES: &str = "KUBE-SERVICES";
const EXTERNAL_SERVICES: &str = "KUBE-EXTERNAL-SERVICES";
const NODE_PORTS: &str = "KUBE-NODEPORTS";
const FORWARD: &str = "KUBE-FORWARD";
const PROXY_FIREWALL: &str = "KUBE-PROXY-FIREWALL";
const FIREWALL: &str = "KUBE-FIREWALL";
const POSTROUTING: &str = "KUBE-POSTROUTING";
const MARK_MASQUERADE: &str = "KUBE-MARK-MASQ";
const CANARY: &str = "KUBE-PROXY-CANARY";

/// A table, the chain of the kernel, ours, and what is between.
pub(super) type Jump = (&'static str, &'static str, &'static str, &'static str);

const NEW: &str = "-m conntrack --ctstate NEW";

/// Put before what is there, one after the other, so that the last comes first.
pub(super) const JUMPS: &[Jump] = &[
    ("filter", "INPUT", EXTERNAL_SERVICES, "kubernetes externally-visible service portals"),
    ("filter", "FORWARD", EXTERNAL_SERVICES, "kubernetes externally-visible service portals"),
    // Upstream has none here: what the node itself sends to an external address without endpoints.
    ("filter", "OUTPUT", EXTERNAL_SERVICES, "kubernetes externally-visible service portals"),
    ("filter", "INPUT", NODE_PORTS, "kubernetes health check service ports"),
    ("filter", "FORWARD", SERVICES, "kubernetes service portals"),
    ("filter", "OUTPUT", SERVICES, "kubernetes service portals"),
    ("filter", "FORWARD", FORWARD, "kubernetes forwarding rules"),
    ("filter", "INPUT", PROXY_FIREWALL, "kubernetes load balancer firewall"),
    ("filter", "OUTPUT", PROXY_FIREWALL, "kubernetes load balancer firewall"),
    ("filter", "FORWARD", PROXY_FIREWALL, "kubernetes load balancer firewall"),
    ("filter", "INPUT", FIREWALL, ""),
    ("filter", "OUTPUT", FIREWALL, ""),
    ("nat", "OUTPUT", SERVICES, "kubernetes service portals"),
    ("nat", "PREROUTING", SERVICES, "kubernetes service portals"),
    ("nat", "POSTROUTING", POSTROUTING, "kubernetes postrouting rules"),
];

/// The chains that are there whatever the Services, by table.
pub(super) const FIXED: &[(&str, &[&str])] = &[
    (
        "filter",
        &[SERVICES, EXTERNAL_SERVICES, NODE_PORTS, FORWARD, PROXY_FIREWALL, FIREWALL, CANARY],
    ),
    ("nat", &[SERVICES, NODE_PORTS, POSTROUTING, MARK_MASQUERADE, CANARY]),
];

/// Says whose chains they are: upstream's names say nothing of a cluster.
pub(super) fn owner_chain(cluster: ClusterId) -> String {
    format!("XEBEC-{cluster}")
}

pub(super) fn is_owner_chain(chain: &str) -> bool {
    chain.starts_with("XEBEC-")
}

#[derive(Debug)]
pub(super) struct Ruleset {
    cluster: ClusterId,
    networks: FamilyNetworks,
    services: BTreeMap<Arc<ObjectKey>, Known>,
    /// Since the kernel was last told.
    touched: BTreeSet<ObjectKey>,
    /// Chains of single Services that the kernel has.
    written: BTreeMap<String, Vec<String>>,
}

#[derive(Debug, Default)]
struct Known {
    ports: Vec<ServicePort>,
    rules: Vec<PortRules>,
}

impl Ruleset {
    pub(super) fn new(cluster: ClusterId, networks: FamilyNetworks) -> Self {
        let (services, written) = (BTreeMap::new(), BTreeMap::new());
        Self { cluster, networks, services, touched: BTreeSet::new(), written }
    }

    pub(super) fn ports(&self, service: &ObjectKey) -> &[ServicePort] {
        self.services.get(service).map(|it| &*it.ports).unwrap_or_default()
    }

    pub(super) fn all_ports(&self) -> impl Iterator<Item = &[ServicePort]> {
        self.services.values().map(|it| &*it.ports)
    }

    /// From now on the Service has these ports, all of the family; none if it is gone.
    pub(super) fn set(&mut self, service: &ObjectKey, ports: Vec<ServicePort>) {
        if self.ports(service) == ports {
            return;
        }
        self.touched.insert(service.clone());
        if ports.is_empty() {
            self.services.remove(service);
            return;
        }
        let rules = ports.iter().map(|it| rules::of(Names::of(service, it), it, &self.networks));
        let known = Known { rules: rules.collect(), ports };
        self.services.insert(Arc::new(service.clone()), known);
    }

    /// What changed since this was last asked for; `None` if nothing did.
    pub(super) fn take_changes(&mut self) -> Option<String> {
        if std::mem::take(&mut self.touched).is_empty() {
            return None;
        }
        let wanted = self.chains();
        let changed: BTreeMap<_, _> =
            wanted.iter().filter(|(name, it)| self.written.get(*name) != Some(*it)).collect();
        let gone = self.written.keys().filter(|it| !wanted.contains_key(*it)).cloned().collect();
        let mut text = self.filter(false, &Saved::default());
        text += &self.nat(false, &Saved::default(), &changed, &gone);
        self.written = wanted;
        Some(text)
    }

    /// All of it, whatever the kernel holds in these tables.
    pub(super) fn whole(&mut self, saved: &BTreeMap<String, Saved>) -> String {
        self.touched.clear();
        let nothing = Saved::default();
        let [filter, nat] = ["filter", "nat"].map(|it| saved.get(it).unwrap_or(&nothing));
        let wanted = self.chains();
        let is_gone = |it: &&String| is_of_service(it) && !wanted.contains_key(*it);
        let gone = nat.chains.iter().filter(is_gone).cloned().collect();
        let mut text = self.filter(true, filter);
        text += &self.nat(true, nat, &wanted.iter().collect(), &gone);
        self.written = wanted;
        text
    }

    fn rules(&self) -> impl Iterator<Item = &PortRules> {
        self.services.values().flat_map(|it| &it.rules)
    }

    fn chains(&self) -> BTreeMap<String, Vec<String>> {
        let chains = self.rules().flat_map(|it| &it.chains);
        chains.map(|(name, rules)| (name.clone(), rules.clone())).collect()
    }

    fn filter(&self, is_whole: bool, saved: &Saved) -> String {
        let mut table = Restore::new("filter");
        let of_services = [SERVICES, EXTERNAL_SERVICES, NODE_PORTS, PROXY_FIREWALL];
        of_services.iter().for_each(|it| table.chain(it));
        if is_whole {
            [FORWARD, FIREWALL, CANARY].iter().for_each(|it| table.chain(it));
            table.jumps("filter", saved);
            self.filter_fixed().for_each(|(chain, rule)| table.rule(chain, &rule));
        }
        for rules in self.rules() {
            rules.refused.iter().for_each(|it| table.rule(SERVICES, it));
            rules.refused_external.iter().for_each(|it| table.rule(EXTERNAL_SERVICES, it));
            rules.dropped.iter().for_each(|it| table.rule(PROXY_FIREWALL, it));
            rules.health_checks.iter().for_each(|it| table.rule(NODE_PORTS, it));
        }
        // Upstream lets these go to wherever the default route leads.
        for range in &self.networks.services {
            for (words, protocol) in [("-p tcp ", Protocol::Tcp), ("", Protocol::Udp)] {
                let comment = "-m comment --comment \"no such cluster IP\"";
                let rule = format!("{comment} {words}-d {range} {}", refuse(protocol));
                table.rule(SERVICES, &rule);
            }
        }
        table.end()
    }

    fn filter_fixed(&self) -> impl Iterator<Item = (&'static str, String)> {
        let comment = |text: &str| format!("-m comment --comment \"{text}\"");
        // Of IPv6 the kernel drops what comes for ::1 from elsewhere.
        let localnet = (self.networks.family == Family::V4).then(|| {
            let blocked = comment("block incoming localnet connections");
            let states = "-m conntrack ! --ctstate RELATED,ESTABLISHED,DNAT";
            (FIREWALL, format!("{blocked} -d 127.0.0.0/8 ! -s 127.0.0.0/8 {states} -j DROP"))
        });
        let rules = comment("kubernetes forwarding rules");
        let tracked = comment("kubernetes forwarding conntrack rule");
        let forward = [
            "-m conntrack --ctstate INVALID -j DROP".to_owned(),
            format!("{rules} -m mark --mark {MARK}/{MARK} -j ACCEPT"),
            format!("{tracked} -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT"),
        ];
        forward.into_iter().map(|it| (FORWARD, it)).chain(localnet)
    }

    fn nat(
        &self,
        is_whole: bool,
        saved: &Saved,
        chains: &BTreeMap<&String, &Vec<String>>,
        gone: &BTreeSet<String>,
    ) -> String {
        let mut table = Restore::new("nat");
        [SERVICES, NODE_PORTS].iter().for_each(|it| table.chain(it));
        chains.keys().for_each(|it| table.chain(it));
        gone.iter().for_each(|it| table.chain(it));
        if is_whole {
            [POSTROUTING, MARK_MASQUERADE, CANARY].iter().for_each(|it| table.chain(it));
            table.chain(&owner_chain(self.cluster));
            table.jumps("nat", saved);
            let snat = "-m comment --comment \"kubernetes service traffic requiring SNAT\"";
            let unmarked = format!("-m mark ! --mark {MARK}/{MARK} -j RETURN");
            table.rule(POSTROUTING, &unmarked);
            table.rule(POSTROUTING, &format!("-j MARK --xor-mark {MARK}"));
            table.rule(POSTROUTING, &format!("{snat} -j MASQUERADE --random-fully"));
            table.rule(MARK_MASQUERADE, &format!("-j MARK --or-mark {MARK}"));
        }
        for rules in self.rules() {
            rules.services.iter().for_each(|it| table.rule(SERVICES, it));
            rules.node_ports.iter().for_each(|it| table.rule(NODE_PORTS, it));
        }
        let last = "-m comment --comment \"kubernetes service nodeports; NOTE: this must be the last \
                    rule in this chain\"";
        for at in self.networks.at_node_ports() {
            table.rule(SERVICES, &format!("{last} {at} -j {NODE_PORTS}"));
        }
        for (name, rules) in chains {
            rules.iter().for_each(|it| table.rule(name, it));
        }
        gone.iter().for_each(|it| table.line(&format!("-X {it}")));
        table.end()
    }
}

/// What removes all that is ours in these tables; `None` if there is nothing.
pub(super) fn removal(cluster: ClusterId, saved: &BTreeMap<String, Saved>) -> Option<String> {
    let is_ours = |it: &Saved| it.chains.contains(&owner_chain(cluster));
    if !saved.values().any(is_ours) {
        return None;
    }
    let mut text = String::new();
    for (name, fixed) in FIXED {
        let Some(saved) = saved.get(*name) else { continue };
        let mut table = Restore::new(name);
        let is_ours = |it: &&String| {
            fixed.contains(&it.as_str())
                || *name == "nat" && (is_of_service(it) || **it == owner_chain(cluster))
        };
        let chains: Vec<_> = saved.chains.iter().filter(is_ours).collect();
        chains.iter().for_each(|it| table.chain(it));
        for (_, from, to, _) in JUMPS.iter().filter(|it| it.0 == *name) {
            saved.rules_to(from, to).for_each(|it| table.line(&format!("-D {it}")));
        }
        chains.iter().for_each(|it| table.line(&format!("-X {it}")));
        text += &table.end();
    }
    Some(text)
}

/// The input of `iptables-restore --noflush` for one table.
struct Restore {
    chains: String,
    lines: String,
}

impl Restore {
    fn new(table: &str) -> Self {
        Self { chains: format!("*{table}\n"), lines: String::new() }
    }

    /// It is made, or emptied.
    fn chain(&mut self, name: &str) {
        let _ = writeln!(self.chains, ":{name} - [0:0]");
    }

    fn rule(&mut self, chain: &str, rule: &str) {
        let _ = writeln!(self.lines, "-A {chain} {rule}");
    }

    fn line(&mut self, line: &str) {
        let _ = writeln!(self.lines, "{line}");
    }

    /// Those that are missing.
    fn jumps(&mut self, table: &str, saved: &Saved) {
        for (_, from, to, comment) in JUMPS.iter().filter(|it| it.0 == table) {
            if saved.jumps(from, to) {
                continue;
            }
            let comment = match *comment {
                "" => String::new(),
                text => format!(" -m comment --comment \"{text}\""),
            };
            let is_of_new = table == "filter" && ![NODE_PORTS, FORWARD, FIREWALL].contains(to);
            let new = if is_of_new { format!(" {NEW}") } else { String::new() };
            self.line(&format!("-I {from} 1{new}{comment} -j {to}"));
        }
    }

    fn end(self) -> String {
        format!("{}{}COMMIT\n", self.chains, self.lines)
    }
}
