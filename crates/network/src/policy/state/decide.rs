//! Whether a connection may begin, as the tables would decide: for connections that began before.

use std::net::IpAddr;

use apimachinery::ObjectKey;

use super::State;
use super::policies::{Content, GroupId, PolicyId, RuleTerms};
use crate::policy::model::{Action, Direction, Protocol};
use crate::policy::terms::{Member, Term, TermId};

/// After translation: where it really goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Connection {
    pub protocol: Protocol,
    pub source: IpAddr,
    pub destination: IpAddr,
    pub port: u16,
}

/// What is said of a connection in one direction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    NotIsolated,
    Allowed {
        /// One of the cluster has no namespace.
        policy: ObjectKey,
        /// From 0.
        rule: usize,
    },
    /// By these policies it is isolated, and none allows it.
    Isolated {
        policies: Vec<ObjectKey>,
    },
    /// A rule of a policy of the cluster denies it.
    Denied {
        policy: ObjectKey,
        rule: usize,
    },
}

/// The same of policies by their numbers.
enum Verdict {
    NotIsolated,
    Allowed(PolicyId, usize),
    Isolated,
    Denied(PolicyId, usize),
}

impl State {
    /// As far as it is this node's to say. Not for what its own processes send.
    pub fn allows(&self, connection: &Connection) -> bool {
        if connection.source == connection.destination {
            return true;
        }
        self.allows_at(connection, Direction::Egress)
            && self.allows_at(connection, Direction::Ingress)
    }

    /// In one direction alone.
    pub fn allows_at(&self, connection: &Connection, direction: Direction) -> bool {
        match self.judge(connection, direction) {
            Verdict::NotIsolated | Verdict::Allowed(..) => true,
            Verdict::Isolated | Verdict::Denied(..) => false,
        }
    }

    /// The same, with why.
    pub fn decide(&self, connection: &Connection, direction: Direction) -> Decision {
        let key = |it: &PolicyId| self.policies.get(it).map(|it| it.key.clone());
        match self.judge(connection, direction) {
            Verdict::NotIsolated => Decision::NotIsolated,
            Verdict::Allowed(id, rule) => {
                let policy = key(&id).unwrap_or_default();
                Decision::Allowed { policy, rule }
            }
            Verdict::Denied(id, rule) => {
                let policy = key(&id).unwrap_or_default();
                Decision::Denied { policy, rule }
            }
            Verdict::Isolated => {
                let group = self.group_of(connection, direction);
                let policies = group.and_then(|it| self.groups.get(it)).map(|it| &*it.policies);
                let own = policies.unwrap_or_default().iter().filter(|it| self.is_namespaced(**it));
                Decision::Isolated { policies: own.filter_map(key).collect() }
            }
        }
    }

    fn group_of(&self, connection: &Connection, direction: Direction) -> Option<GroupId> {
        match direction {
            Direction::Ingress => self.applied_at(connection.destination).ingress,
            Direction::Egress => self.applied_at(connection.source).egress,
        }
    }

    fn judge(&self, connection: &Connection, direction: Direction) -> Verdict {
        let Some(id) = self.group_of(connection, direction) else { return Verdict::NotIsolated };
        // None: of whom nothing is known.
        let Some(group) = self.groups.get(id) else { return Verdict::Isolated };
        let peer = match direction {
            Direction::Ingress => connection.source,
            Direction::Egress => connection.destination,
        };
        let (mut is_isolated, mut passed) = (false, None);
        for id in group.policies.iter() {
            let Some(held) = self.policies.get(id) else { continue };
            let matching = |it: &RuleTerms| self.rule_allows(it, peer, connection);
            let first = held.rule_terms(direction).iter().position(matching);
            match &held.content {
                Some(Content::Cluster(it)) if passed != Some(it.tier) => {
                    let rule = first.and_then(|it| held.cluster_rules(direction).get(it));
                    match rule.map(|it| (it.action, it.index)) {
                        Some((Action::Accept, index)) => return Verdict::Allowed(*id, index),
                        Some((Action::Deny, index)) => return Verdict::Denied(*id, index),
                        Some((Action::Pass, _)) => passed = Some(it.tier),
                        None => {}
                    }
                }
                Some(Content::Cluster(_)) => {}
                Some(Content::Namespaced(_)) | None => {
                    is_isolated = true;
                    if let Some(rule) = first {
                        return Verdict::Allowed(*id, rule);
                    }
                }
            }
        }
        if is_isolated { Verdict::Isolated } else { Verdict::NotIsolated }
    }

    fn is_namespaced(&self, id: PolicyId) -> bool {
        let content = self.policies.get(&id).and_then(|it| it.content.as_ref());
        matches!(content, Some(Content::Namespaced(_)))
    }

    fn rule_allows(&self, rule: &RuleTerms, peer: IpAddr, connection: &Connection) -> bool {
        let has = |terms: &Option<Vec<TermId>>| {
            let any = |all: &Vec<TermId>| all.iter().any(|it| self.has(*it, peer, connection));
            terms.as_ref().is_none_or(any)
        };
        has(&rule.ports) && has(&rule.peers)
    }

    fn has(&self, term: TermId, peer: IpAddr, connection: &Connection) -> bool {
        let Connection { protocol, destination, port, .. } = *connection;
        let Some(held) = self.terms.get(term) else { return false };
        match &held.term {
            Term::Pods(_) => held.has(Member::Address(peer)),
            Term::Ranges(it) => it.contains(peer),
            Term::Numbers(it) => {
                let has =
                    |it: &(Protocol, u16, u16)| it.0 == protocol && (it.1..=it.2).contains(&port);
                it.iter().any(has)
            }
            Term::Named(..) => held.has(Member::Port(destination, protocol, port)),
        }
    }
}
