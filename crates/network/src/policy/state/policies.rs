//! What a policy changes: the sets that it asks for, its chains, and for which pods it holds.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use apimachinery::ObjectKey;

use super::{Applied, State};
use crate::policy::chains::{self, Asked};
use crate::policy::model::{
    Direction, NamedPort, Namespaces, Peer, Pod, Policy, Port, Rule, matches,
};
use crate::policy::ranges::Ranges;
use crate::policy::slots::Slots;
use crate::policy::tables;
use crate::policy::terms::{Term, TermId, merged};

pub(super) type PolicyId = u32;

#[derive(Debug)]
pub(super) struct HeldPolicy {
    pub(super) key: ObjectKey,
    /// `None`: it is gone, and some pod was not told yet.
    pub(super) policy: Option<Arc<Policy>>,
    ingress: Side,
    egress: Side,
}

/// Of one direction.
#[derive(Debug, Default)]
struct Side {
    n_groups: usize,
    /// While it is in a group: what its rules ask.
    rules: Vec<RuleTerms>,
    chains: Vec<String>,
}

/// Any of the peers and any of the ports; `None`: all.
#[derive(Clone, Debug, Default)]
pub(super) struct RuleTerms {
    pub(super) peers: Option<Vec<TermId>>,
    pub(super) ports: Option<Vec<TermId>>,
}

impl HeldPolicy {
    fn side(&mut self, direction: Direction) -> &mut Side {
        match direction {
            Direction::Ingress => &mut self.ingress,
            Direction::Egress => &mut self.egress,
        }
    }

    pub(super) fn rule_terms(&self, direction: Direction) -> &[RuleTerms] {
        match direction {
            Direction::Ingress => &self.ingress.rules,
            Direction::Egress => &self.egress.rules,
        }
    }
}

/// A set of policies that holds for pods; or [`CLOSED`].
pub(super) type GroupId = u32;

const CLOSED: GroupId = u32::MAX;

#[derive(Debug, Default)]
pub(super) struct Groups {
    slots: Slots,
    by_policies: BTreeMap<(Direction, Arc<[PolicyId]>), GroupId>,
    all: BTreeMap<GroupId, Group>,
}

#[derive(Debug)]
pub(super) struct Group {
    pub(super) direction: Direction,
    /// Sorted.
    pub(super) policies: Arc<[PolicyId]>,
    uses: usize,
}

impl Groups {
    pub(super) fn settle(&mut self) {
        self.slots.settle();
    }

    pub(super) fn get(&self, id: GroupId) -> Option<&Group> {
        self.all.get(&id)
    }

    pub(super) fn chain(&self, id: GroupId) -> String {
        match self.all.get(&id) {
            Some(group) => chains::group(group.direction, id),
            None => chains::CLOSED.to_owned(),
        }
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.all.len()
    }
}

impl State {
    pub(super) fn change_policy(&mut self, key: &ObjectKey, policy: Option<Policy>) {
        let known = self.policy_ids.get(key).copied();
        let id = match (known, &policy) {
            (None, None) => return,
            (Some(id), _) => id,
            (None, Some(_)) => {
                let id = self.policy_slots.take();
                let (ingress, egress) = (Side::default(), Side::default());
                let held = HeldPolicy { key: key.clone(), policy: None, ingress, egress };
                self.policies.insert(id, held);
                self.policy_ids.insert(key.clone(), id);
                id
            }
        };
        let after = policy.map(Arc::new);
        let Some(held) = self.policies.get_mut(&id) else { return };
        if held.policy == after {
            return;
        }
        let before = std::mem::replace(&mut held.policy, after.clone());
        let selecting = self.selecting.entry(key.namespace.clone()).or_default();
        if let Some(before) = &before {
            selecting.remove(&before.pods, id);
        }
        if let Some(after) = &after {
            selecting.insert(&after.pods, id);
        }
        if selecting.is_empty() {
            self.selecting.remove(&key.namespace);
        }
        self.suspect_subjects_of(&key.namespace, id);
        for direction in Direction::ALL {
            self.rebuild(id, direction);
        }
        for subject in self.subjects_of(&key.namespace) {
            self.refresh_subject(&subject);
        }
        if after.is_none() {
            self.policies.remove(&id);
            self.policy_ids.remove(key);
            self.policy_slots.give_back(id);
        }
    }

    /// For whom it holds: what it allowed, it may not any more.
    fn suspect_subjects_of(&mut self, namespace: &str, id: PolicyId) {
        let holds = |group: Option<GroupId>| {
            let group = group.and_then(|it| self.groups.get(it));
            group.is_some_and(|it| it.policies.binary_search(&id).is_ok())
        };
        let mut suspects = BTreeSet::new();
        for key in self.subjects_of(namespace) {
            for (address, applied) in self.subjects.get(&key).into_iter().flatten() {
                if holds(applied.ingress) || holds(applied.egress) {
                    suspects.insert(*address);
                }
            }
        }
        self.suspects.extend(suspects);
    }

    /// Sorted.
    pub(super) fn selected_by(&self, key: &ObjectKey, direction: Direction) -> Vec<PolicyId> {
        let (Some(known), Some(anchors)) = (self.pods.get(key), self.selecting.get(&key.namespace))
        else {
            return Vec::new();
        };
        let labels = &known.labels;
        let holds = |it: &PolicyId| {
            let policy = self.policies.get(it).and_then(|it| it.policy.as_ref());
            policy.is_some_and(|it| it.rules(direction).is_some() && matches(&it.pods, labels))
        };
        let mut found: Vec<_> = anchors.candidates(labels).filter(holds).collect();
        found.sort_unstable();
        found.dedup();
        found
    }

    /// For a pod whose labels are not known: any policy of its namespace may be for it.
    pub(super) fn closed(&self, namespace: &str, direction: Direction) -> Option<GroupId> {
        let policies = self.policy_ids.range(ObjectKey::new(namespace, "")..);
        let mut policies = policies.take_while(|(key, _)| key.namespace == namespace);
        let isolates = |id: &PolicyId| {
            let policy = self.policies.get(id).and_then(|it| it.policy.as_ref());
            policy.is_some_and(|it| it.rules(direction).is_some())
        };
        policies.any(|(_, id)| isolates(id)).then_some(CLOSED)
    }

    pub(super) fn acquire_group(
        &mut self,
        direction: Direction,
        policies: &[PolicyId],
    ) -> Option<GroupId> {
        if policies.is_empty() {
            return None;
        }
        let key = (direction, Arc::from(policies));
        if let Some(id) = self.groups.by_policies.get(&key) {
            if let Some(group) = self.groups.all.get_mut(id) {
                group.uses += 1;
            }
            return Some(*id);
        }
        let id = self.groups.slots.take();
        for policy in policies {
            if let Some(held) = self.policies.get_mut(policy) {
                let side = held.side(direction);
                side.n_groups += 1;
                if side.n_groups == 1 {
                    self.rebuild(*policy, direction);
                }
            }
        }
        let name = chains::group(direction, id);
        for side in &mut self.sides {
            let labels = policies.iter().filter_map(|it| Some((*it, self.policies.get(it)?)));
            let labels: Vec<_> = labels.map(|(id, it)| (id, it.key.to_string())).collect();
            let policies = labels.iter().map(|(id, label)| (*id, label.as_str()));
            side.put_chain(name.clone(), chains::of_group(side.family, direction, policies));
        }
        let policies = key.1.clone();
        self.groups.all.insert(id, Group { direction, policies, uses: 1 });
        self.groups.by_policies.insert(key, id);
        Some(id)
    }

    pub(super) fn release_groups(&mut self, applied: Applied) {
        for id in [applied.ingress, applied.egress].into_iter().flatten() {
            let Some(group) = self.groups.all.get_mut(&id) else { continue };
            group.uses -= 1;
            if group.uses > 0 {
                continue;
            }
            let Some(group) = self.groups.all.remove(&id) else { continue };
            let Group { direction, policies, .. } = group;
            self.groups.slots.give_back(id);
            let name = chains::group(direction, id);
            self.sides.iter_mut().for_each(|it| it.remove_chain(&name));
            for policy in policies.iter() {
                if let Some(held) = self.policies.get_mut(policy) {
                    let side = held.side(direction);
                    side.n_groups -= 1;
                    if side.n_groups == 0 {
                        self.rebuild(*policy, direction);
                    }
                }
            }
            self.groups.by_policies.remove(&(direction, policies));
        }
    }

    /// The chains and sets of a policy, as it is now; none while it is in no group.
    fn rebuild(&mut self, id: PolicyId, direction: Direction) {
        let Some(held) = self.policies.get_mut(&id) else { return };
        let (label, policy) = (held.key.to_string(), held.policy.clone());
        let side = held.side(direction);
        let is_held = side.n_groups > 0;
        let (old_rules, old_chains) =
            (std::mem::take(&mut side.rules), std::mem::take(&mut side.chains));
        let mut new_chains = Vec::new();
        if is_held {
            let rules = policy.as_ref().and_then(|it| it.rules(direction)).unwrap_or_default();
            let rules: Vec<RuleTerms> = rules.iter().map(|it| self.acquire_rule(it)).collect();
            let asked: Vec<Asked> = rules.iter().map(|it| self.asked(it)).collect();
            for side in &mut self.sides {
                let slot = (id, label.as_str());
                for (name, chain) in chains::of_policy(side.family, direction, slot, &asked) {
                    new_chains.push(name.clone());
                    side.put_chain(name, chain);
                }
            }
            new_chains.sort_unstable();
            new_chains.dedup();
            if let Some(held) = self.policies.get_mut(&id) {
                let side = held.side(direction);
                (side.rules, side.chains) = (rules, new_chains.clone());
            }
        }
        for name in old_chains.iter().filter(|it| new_chains.binary_search(it).is_err()) {
            self.sides.iter_mut().for_each(|it| it.remove_chain(name));
        }
        for rule in old_rules {
            let terms = [rule.peers, rule.ports].into_iter().flatten().flatten();
            terms.for_each(|it| self.release_term(it));
        }
    }

    fn asked(&self, rule: &RuleTerms) -> Asked {
        let term = |id: &TermId| Some((self.terms.get(*id)?, *id));
        let set = |id: &TermId| term(id).map(|(it, id)| it.term.set_name(id));
        let port = |id: &TermId| {
            let (held, id) = term(id)?;
            Some((held.term.set_name(id), matches!(held.term, Term::Named(..))))
        };
        Asked {
            peers: rule.peers.as_ref().map(|it| it.iter().filter_map(set).collect()),
            ports: rule.ports.as_ref().map(|it| it.iter().filter_map(port).collect()),
        }
    }

    fn acquire_rule(&mut self, rule: &Rule) -> RuleTerms {
        let peers = rule.peers.as_ref().map(|peers| self.acquire_peers(peers));
        let ports = rule.ports.as_ref().map(|ports| self.acquire_ports(ports));
        RuleTerms { peers, ports }
    }

    /// All blocks are one set.
    fn acquire_peers(&mut self, peers: &[Peer]) -> Vec<TermId> {
        let mut terms = Vec::new();
        let mut blocks: Vec<Ranges> = Vec::new();
        for peer in peers {
            match peer {
                Peer::Pods(it) => terms.push(Term::Pods(it.clone())),
                Peer::Block(it) => blocks.push(it.clone()),
            }
        }
        if !blocks.is_empty() {
            terms.push(Term::Ranges(Ranges::union(blocks)));
        }
        self.acquire_terms(terms)
    }

    /// All numbers are one set.
    fn acquire_ports(&mut self, ports: &[Port]) -> Vec<TermId> {
        let mut terms = Vec::new();
        let mut numbers = Vec::new();
        for port in ports {
            match port {
                Port::Numbers { protocol, first, last } => {
                    numbers.push((*protocol, *first, *last));
                }
                Port::Named { protocol, name } => terms.push(Term::Named(name.clone(), *protocol)),
            }
        }
        if !numbers.is_empty() {
            terms.push(Term::Numbers(merged(numbers)));
        }
        self.acquire_terms(terms)
    }

    /// Each once.
    fn acquire_terms(&mut self, terms: Vec<Term>) -> Vec<TermId> {
        let mut ids = BTreeSet::new();
        for term in terms {
            let id = self.acquire_term(term);
            if !ids.insert(id) {
                self.release_term(id);
            }
        }
        ids.into_iter().collect()
    }

    fn acquire_term(&mut self, term: Term) -> TermId {
        let (id, is_new) = self.terms.acquire(term.clone());
        if !is_new {
            return id;
        }
        let name = term.set_name(id);
        for side in &mut self.sides {
            side.put_set(name, chains::set_of(&term, side.family));
            for key in tables::fixed(&term, side.family) {
                side.put(name, key, None);
            }
        }
        for key in self.pods_that_may_be_in(&term) {
            for (_, member) in self.memberships(&key).into_iter().filter(|it| it.0 == id) {
                self.join(id, member);
            }
        }
        id
    }

    fn pods_that_may_be_in(&self, term: &Term) -> Vec<ObjectKey> {
        match term {
            Term::Ranges(_) | Term::Numbers(_) => Vec::new(),
            Term::Named(name, protocol) => {
                let has = |it: &&Pod| {
                    let is_it =
                        |it: &NamedPort| it.name.as_str() == name && it.protocol == *protocol;
                    it.ports.iter().any(is_it)
                };
                let pods = self.pods.iter().filter(|(_, it)| has(it));
                pods.map(|(key, _)| key.clone()).collect()
            }
            Term::Pods(selected) => {
                let names = match &selected.namespaces {
                    Namespaces::One(name) => vec![name.clone()],
                    Namespaces::Labeled(labels) => {
                        let mut names = self.namespaces_of_pods();
                        names.retain(|it| matches(labels, &self.namespace_labels(it)));
                        names
                    }
                };
                let selector = &selected.pods;
                let of_namespace = |name: String| {
                    let pods = self.pods.range(ObjectKey::new(&*name, "")..);
                    let pods = pods.take_while(move |(key, _)| key.namespace == name);
                    pods.filter(move |(_, it)| matches(selector, &it.labels))
                };
                names.into_iter().flat_map(of_namespace).map(|(key, _)| key.clone()).collect()
            }
        }
    }

    /// Those that have any, in the order of their names.
    fn namespaces_of_pods(&self) -> Vec<String> {
        let mut names: Vec<String> = Vec::new();
        let mut next = ObjectKey::new("", "");
        while let Some((key, _)) = self.pods.range(next..).next() {
            names.push(key.namespace.clone());
            next = ObjectKey::new(format!("{}\0", key.namespace), "");
        }
        names
    }

    fn release_term(&mut self, id: TermId) {
        let Some(held) = self.terms.release(id) else { return };
        let name = held.term.set_name(id);
        self.sides.iter_mut().for_each(|it| it.remove_set(name));
    }
}
