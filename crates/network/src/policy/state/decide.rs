//! Whether a connection may begin, as the tables would decide: for connections that began before.

use std::net::IpAddr;

use apimachinery::ObjectKey;

use super::State;
use super::policies::{GroupId, PolicyId, RuleTerms};
use crate::policy::model::{Direction, Protocol};
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
        policy: ObjectKey,
        /// From 0.
        rule: usize,
    },
    /// By these policies it is isolated, and none allows it.
    Denied {
        policies: Vec<ObjectKey>,
    },
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
        self.group_of(connection, direction)
            .is_none_or(|it| self.allowing(it, connection, direction).is_some())
    }

    /// The same, with why.
    pub fn decide(&self, connection: &Connection, direction: Direction) -> Decision {
        let Some(id) = self.group_of(connection, direction) else { return Decision::NotIsolated };
        let key = |it: &PolicyId| self.policies.get(it).map(|it| it.key.clone());
        if let Some((policy, rule)) = self.allowing(id, connection, direction)
            && let Some(policy) = key(&policy)
        {
            return Decision::Allowed { policy, rule };
        }
        let policies = self.groups.get(id).map(|it| it.policies.iter().filter_map(key).collect());
        Decision::Denied { policies: policies.unwrap_or_default() }
    }

    fn group_of(&self, connection: &Connection, direction: Direction) -> Option<GroupId> {
        match direction {
            Direction::Ingress => self.applied_at(connection.destination).ingress,
            Direction::Egress => self.applied_at(connection.source).egress,
        }
    }

    /// The first policy that allows it, and which of its rules does.
    fn allowing(
        &self,
        id: GroupId,
        connection: &Connection,
        direction: Direction,
    ) -> Option<(PolicyId, usize)> {
        let peer = match direction {
            Direction::Ingress => connection.source,
            Direction::Egress => connection.destination,
        };
        // None: of whom nothing is known.
        let group = self.groups.get(id)?;
        group.policies.iter().find_map(|it| {
            let rules = self.policies.get(it)?.rule_terms(direction);
            let rule = rules.iter().position(|it| self.rule_allows(it, peer, connection))?;
            Some((*it, rule))
        })
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
