//! What of pods and policies matters to whom traffic is allowed. Plain types, and what they match.

use std::fmt;
use std::net::IpAddr;

use api::{Interned, Pairs};
use apimachinery::selector::Labels;

use super::ranges::Ranges;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Protocol {
    Tcp,
    Udp,
    Sctp,
}

impl Protocol {
    pub const ALL: [Self; 3] = [Self::Tcp, Self::Udp, Self::Sctp];

    /// As Kubernetes names it; nothing is TCP.
    pub fn named(name: &str) -> Option<Self> {
        match name {
            "" | "TCP" => Some(Self::Tcp),
            "UDP" => Some(Self::Udp),
            "SCTP" => Some(Self::Sctp),
            _ => None,
        }
    }

    /// In an IP header.
    pub fn number(self) -> u8 {
        match self {
            Self::Tcp => 6,
            Self::Udp => 17,
            Self::Sctp => 132,
        }
    }
}

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Tcp => "TCP",
            Self::Udp => "UDP",
            Self::Sctp => "SCTP",
        })
    }
}

/// As the API tells of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pod {
    pub uid: Box<str>,
    pub labels: Pairs,
    /// Empty: not bound.
    pub node: Interned,
    /// No subject of policies; as a peer it is the addresses of its node.
    pub is_on_host_network: bool,
    /// Of a pod that a file of its node makes: the one in the API has another uid.
    pub is_mirror: bool,
    pub has_ended: bool,
    pub addresses: Vec<IpAddr>,
    pub ports: Vec<NamedPort>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct NamedPort {
    pub name: Interned,
    pub protocol: Protocol,
    pub number: u16,
}

/// A NetworkPolicy, compiled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    /// Whom it is about, in its own namespace.
    pub pods: Labels,
    /// `None`: it does not isolate in this direction.
    pub ingress: Option<Vec<Rule>>,
    pub egress: Option<Vec<Rule>>,
}

impl Policy {
    pub fn rules(&self, direction: Direction) -> Option<&[Rule]> {
        match direction {
            Direction::Ingress => self.ingress.as_deref(),
            Direction::Egress => self.egress.as_deref(),
        }
    }
}

/// A ClusterNetworkPolicy, compiled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterPolicy {
    pub tier: Tier,
    /// Lower ones are asked first.
    pub priority: u16,
    /// Whom it is about.
    pub subject: Selected,
    /// In the order in which they are asked; none: it says nothing in this direction.
    pub ingress: Vec<ClusterRule>,
    pub egress: Vec<ClusterRule>,
}

impl ClusterPolicy {
    pub fn rules(&self, direction: Direction) -> &[ClusterRule] {
        match direction {
            Direction::Ingress => &self.ingress,
            Direction::Egress => &self.egress,
        }
    }
}

/// Before NetworkPolicies, or after them for pods that none of them isolates.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Tier {
    Admin,
    Baseline,
}

/// The first that matches decides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterRule {
    pub action: Action,
    /// Which of the policy's it is, from 0: some are left out.
    pub index: usize,
    pub matching: Rule,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    Accept,
    Deny,
    /// Others decide: NetworkPolicies after the tier Admin, and nobody after Baseline.
    Pass,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Direction {
    Ingress,
    Egress,
}

impl Direction {
    pub const ALL: [Self; 2] = [Self::Ingress, Self::Egress];

    pub fn name(self) -> &'static str {
        match self {
            Self::Ingress => "ingress",
            Self::Egress => "egress",
        }
    }
}

/// Which traffic it is about: whose peer is one of these, on one of these ports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// `None`: everybody.
    pub peers: Option<Vec<Peer>>,
    /// `None`: all, of any protocol.
    pub ports: Option<Vec<Port>>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Peer {
    Pods(Selected),
    Block(Ranges),
}

/// Some pods of some namespaces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selected {
    pub namespaces: Namespaces,
    pub pods: Labels,
    /// Pods on their node's network are among them, as that node's addresses.
    pub has_hosts: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Namespaces {
    One(String),
    Labeled(Labels),
}

impl Selected {
    pub fn matches(&self, namespace: (&str, &Pairs), pod: &Pairs) -> bool {
        let (name, labels) = namespace;
        self.has_namespace(name, labels) && matches(&self.pods, pod)
    }

    pub fn has_namespace(&self, name: &str, labels: &Pairs) -> bool {
        match &self.namespaces {
            Namespaces::One(it) => it == name,
            Namespaces::Labeled(it) => matches(it, labels),
        }
    }
}

pub fn matches(selector: &Labels, labels: &Pairs) -> bool {
    selector.matches_with(|key| labels.get(key))
}

/// All of a protocol is from 0 to 65535.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Port {
    Numbers { protocol: Protocol, first: u16, last: u16 },
    Named { protocol: Protocol, name: String },
}
