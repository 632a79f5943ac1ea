//! The rules of one port of a Service, as `iptables-restore` reads them. Pure.
//!
//! Chains, their order and their comments are upstream's, but that TCP is refused by a reset: of
//! ICMP the kernel gives each host a few per second only.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use stdx::{Cidr, Family};

use super::names::{Names, host, socket, word};
use crate::backends::Networks;
use crate::service_port::{Endpoint, Protocol, ServicePort, TrafficPolicy};

/// What rules depend on beside Services, of one family.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FamilyNetworks {
    pub(super) family: Family,
    pub(super) cluster: Option<Cidr>,
    pub(super) services: Vec<Cidr>,
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

    /// What is sent to an address on which node ports are served: the match of one rule for each
    /// range. The kernel lets nothing that came from ::1 leave the host.
    pub(super) fn at_node_ports(&self) -> Vec<String> {
        let local = "-m addrtype --dst-type LOCAL";
        match (&self.node_ports, self.family) {
            (None, Family::V4) => vec![local.to_owned()],
            (None, Family::V6) => vec![format!("! -d ::1/128 {local}")],
            (Some(ranges), _) => ranges.iter().map(|it| format!("-d {it} {local}")).collect(),
        }
    }
}

/// Lines for chains of `nat` and `filter`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct PortRules {
    /// In KUBE-SERVICES and KUBE-NODEPORTS of `nat`.
    pub(super) services: Vec<String>,
    pub(super) node_ports: Vec<String>,
    /// In KUBE-SERVICES, KUBE-EXTERNAL-SERVICES, KUBE-PROXY-FIREWALL and KUBE-NODEPORTS of `filter`.
    pub(super) refused: Vec<String>,
    pub(super) refused_external: Vec<String>,
    pub(super) dropped: Vec<String>,
    pub(super) health_checks: Vec<String>,
    /// Chains of `nat` that are the port's own.
    pub(super) chains: BTreeMap<String, Vec<String>>,
}

struct Writer<'a> {
    networks: &'a FamilyNetworks,
    names: Names,
    port: &'a ServicePort,
    rules: PortRules,
}

pub(super) fn of(names: Names, port: &ServicePort, networks: &FamilyNetworks) -> PortRules {
    let mut writer = Writer { networks, names, port, rules: PortRules::default() };
    writer.cluster_ip();
    if port.has_external_frontends() {
        writer.external_chain();
        writer.external();
        writer.refuse_external();
    }
    writer.choices();
    if let Some(number) = port.health_check_node_port {
        let comment = comment(&format!("{} health check node port", writer.names.port));
        writer
            .rules
            .health_checks
            .push(format!("{comment} -m tcp -p tcp --dport {number} -j ACCEPT"));
    }
    writer.rules
}

fn comment(text: &str) -> String {
    if text.contains(' ') {
        format!("-m comment --comment \"{text}\"")
    } else {
        format!("-m comment --comment {text}")
    }
}

pub(super) fn refuse(protocol: Protocol) -> &'static str {
    match protocol {
        Protocol::Tcp => "-j REJECT --reject-with tcp-reset",
        _ => "-j REJECT",
    }
}

const MASQUERADE: &str = "-j KUBE-MARK-MASQ";

impl Writer<'_> {
    fn endpoints(&self, policy: TrafficPolicy) -> &BTreeSet<Endpoint> {
        match policy {
            TrafficPolicy::Cluster => &self.port.endpoints.cluster,
            TrafficPolicy::Local => &self.port.endpoints.local,
        }
    }

    fn chain(&self, policy: TrafficPolicy) -> String {
        match policy {
            TrafficPolicy::Cluster => self.names.cluster(),
            TrafficPolicy::Local => self.names.local(),
        }
    }

    fn comment(&self, words: &str) -> String {
        comment(&format!("{}{words}", self.names.port))
    }

    /// The match of a protocol and port, maybe at an address.
    fn sent_to(&self, address: Option<IpAddr>, port: u16) -> String {
        let protocol = word(self.port.protocol);
        let address = address.map(|it| format!(" -d {}", host(it))).unwrap_or_default();
        format!("-m {protocol} -p {protocol}{address} --dport {port}")
    }

    fn cluster_ip(&mut self) {
        let policy = self.port.internal_policy;
        let sent = self.sent_to(Some(self.port.cluster_ip), self.port.port);
        if self.endpoints(policy).is_empty() {
            let rule = self.refusal(&sent);
            self.rules.refused.push(rule);
            return;
        }
        let (comment, chain) = (self.comment(" cluster IP"), self.chain(policy));
        self.rules.services.push(format!("{comment} {sent} -j {chain}"));
    }

    /// Nobody has endpoints, or only this node has none.
    fn refusal(&self, sent: &str) -> String {
        let (words, verdict) = match self.port.endpoints.cluster.is_empty() {
            true => (" has no endpoints", refuse(self.port.protocol)),
            false => (" has no local endpoints", "-j DROP"),
        };
        format!("{} {sent} {verdict}", self.comment(words))
    }

    /// Whether traffic from outside may find an endpoint: with policy Local the node itself and pods
    /// have those elsewhere.
    fn has_external_endpoints(&self) -> bool {
        let endpoints = &self.port.endpoints;
        !endpoints.cluster.is_empty() || !self.endpoints(self.port.external_policy).is_empty()
    }

    fn external(&mut self) {
        if !self.has_external_endpoints() {
            return;
        }
        let to_external = format!("-j {}", self.names.external());
        for address in &self.port.external_ips {
            let sent = self.sent_to(Some(*address), self.port.port);
            let comment = self.comment(" external IP");
            self.rules.services.push(format!("{comment} {sent} {to_external}"));
        }
        for address in &self.port.load_balancer_ips {
            let sent = self.sent_to(Some(*address), self.port.port);
            let comment = self.comment(" loadbalancer IP");
            let target = match self.port.source_ranges {
                Some(_) => format!("-j {}", self.names.firewall()),
                None => to_external.clone(),
            };
            self.rules.services.push(format!("{comment} {sent} {target}"));
        }
        if let Some(number) = self.port.node_port {
            let (comment, sent) = (self.comment(""), self.sent_to(None, number));
            self.rules.node_ports.push(format!("{comment} {sent} {to_external}"));
        }
    }

    fn external_chain(&mut self) {
        self.guard();
        if !self.has_external_endpoints() {
            return;
        }
        let to =
            |words: &str| comment(&format!("{words} {} external destinations", self.names.port));
        let cluster = format!("-j {}", self.names.cluster());
        let has_any = !self.port.endpoints.cluster.is_empty();
        let mut rules = Vec::new();
        match self.port.external_policy {
            TrafficPolicy::Cluster => {
                rules.push(format!("{} {MASQUERADE}", to("masquerade traffic for")));
                rules.push(cluster);
            }
            TrafficPolicy::Local => {
                let pods = self.networks.cluster.filter(|_| has_any);
                rules.extend(pods.map(|it| format!("{} -s {it} {cluster}", to("pod traffic for"))));
                let here = "-m addrtype --src-type LOCAL";
                let masquerade = to("masquerade LOCAL traffic for");
                rules.push(format!("{masquerade} {here} {MASQUERADE}"));
                if has_any {
                    rules.push(format!("{} {here} {cluster}", to("route LOCAL traffic for")));
                }
                if !self.port.endpoints.local.is_empty() {
                    rules.push(format!("-j {}", self.names.local()));
                }
            }
        }
        self.rules.chains.insert(self.names.external(), rules);
    }

    /// Who may use the load balancer's addresses; the others are dropped in `filter`.
    fn guard(&mut self) {
        let Some(ranges) = &self.port.source_ranges else { return };
        if self.port.load_balancer_ips.is_empty() {
            return;
        }
        let firewall = self.names.firewall();
        for address in &self.port.load_balancer_ips {
            let comment = self.comment(&format!(" traffic not accepted by {firewall}"));
            let sent = self.sent_to(Some(*address), self.port.port);
            self.rules.dropped.push(format!("{comment} {sent} -j DROP"));
        }
        if !self.has_external_endpoints() {
            return;
        }
        let comment_of = self.comment(" loadbalancer IP");
        let to_external = format!("-j {}", self.names.external());
        let mut rules: Vec<_> =
            ranges.iter().map(|it| format!("{comment_of} -s {it} {to_external}")).collect();
        let rest =
            format!("other traffic to {} will be dropped by KUBE-PROXY-FIREWALL", self.names.port);
        rules.push(comment(&rest));
        self.rules.chains.insert(firewall, rules);
    }

    fn refuse_external(&mut self) {
        if !self.endpoints(self.port.external_policy).is_empty() {
            return;
        }
        for address in self.port.external_addresses() {
            let sent = self.sent_to(Some(address), self.port.port);
            let rule = self.refusal(&sent);
            self.rules.refused_external.push(rule);
        }
        let Some(number) = self.port.node_port else { return };
        let sent = self.sent_to(None, number);
        for at in self.networks.at_node_ports() {
            let rule = self.refusal(&format!("{at} {sent}"));
            self.rules.refused_external.push(rule);
        }
    }

    fn choices(&mut self) {
        let is_external = self.port.has_external_frontends();
        for policy in [TrafficPolicy::Cluster, TrafficPolicy::Local] {
            let is_internal = self.port.internal_policy == policy;
            // The node and pods use all endpoints even where policy Local keeps others out.
            let is_needed = is_internal
                || is_external
                    && (policy == TrafficPolicy::Cluster || self.port.external_policy == policy);
            let endpoints = self.endpoints(policy).clone();
            if is_needed && !endpoints.is_empty() {
                self.choice(policy, is_internal, &endpoints);
            }
        }
        let all = self.port.endpoints.cluster.union(&self.port.endpoints.local);
        for endpoint in all.copied().collect::<Vec<_>>() {
            self.endpoint(endpoint);
        }
    }

    fn choice(&mut self, policy: TrafficPolicy, is_internal: bool, endpoints: &BTreeSet<Endpoint>) {
        let mut rules = Vec::new();
        if is_internal {
            let sent = self.sent_to(Some(self.port.cluster_ip), self.port.port);
            let outside = self.networks.cluster.map(|it| format!(" ! -s {it}")).unwrap_or_default();
            rules.push(format!("{} {sent}{outside} {MASQUERADE}", self.comment(" cluster IP")));
        }
        let comment = |it: &Endpoint| self.comment(&format!(" -> {}", socket(*it)));
        if let Some(affinity) = self.port.affinity {
            let seconds = affinity.as_secs();
            rules.extend(endpoints.iter().map(|it| {
                let (comment, chain) = (comment(it), self.names.endpoint(*it));
                let recent =
                    format!("-m recent --name {chain} --rcheck --seconds {seconds} --reap");
                format!("{comment} {recent} -j {chain}")
            }));
        }
        for (index, endpoint) in endpoints.iter().enumerate() {
            let (comment, chain) = (comment(endpoint), self.names.endpoint(*endpoint));
            let draw = match endpoints.len() - index {
                1 => String::new(),
                left => format!(" -m statistic --mode random --probability {}", probability(left)),
            };
            rules.push(format!("{comment}{draw} -j {chain}"));
        }
        self.rules.chains.insert(self.chain(policy), rules);
    }

    fn endpoint(&mut self, endpoint: Endpoint) {
        let (comment, chain) = (self.comment(""), self.names.endpoint(endpoint));
        let protocol = word(self.port.protocol);
        let remember = self.port.affinity.map(|_| format!(" -m recent --name {chain} --set"));
        let remember = remember.unwrap_or_default();
        let target = socket(endpoint);
        let rules = vec![
            format!("{comment} -s {} {MASQUERADE}", host(endpoint.address)),
            format!(
                "{comment}{remember} -m {protocol} -p {protocol} -j DNAT --to-destination {target}"
            ),
        ];
        self.rules.chains.insert(chain, rules);
    }
}

/// One of so many, with ten digits, as upstream writes it.
fn probability(n: usize) -> String {
    let n = u32::try_from(n).unwrap_or(u32::MAX);
    format!("{:.10}", 1.0 / f64::from(n))
}
