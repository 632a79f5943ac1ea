//! What a policy changes: the sets that it asks for, its chains, and for which pods it holds.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use apimachinery::ObjectKey;

use super::{Applied, State};
use crate::policy::chains::{self, Asked, GroupRules, Tiered};
use crate::policy::model::{
    ClusterPolicy, ClusterRule, Direction, NamedPort, Namespaces, Peer, Pod, Policy, Port, Rule,
    Tier, matches,
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
    pub(super) content: Option<Content>,
    ingress: Side,
    egress: Side,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Content {
    Namespaced(Arc<Policy>),
    Cluster(Arc<ClusterPolicy>),
}

impl Content {
    /// By which labels it is found.
    fn pods(&self) -> &apimachinery::selector::Labels {
        match self {
            Self::Namespaced(it) => &it.pods,
            Self::Cluster(it) => &it.subject.pods,
        }
    }

    /// Whether it says anything in this direction.
    fn speaks(&self, direction: Direction) -> bool {
        match self {
            Self::Namespaced(it) => it.rules(direction).is_some(),
            Self::Cluster(it) => !it.rules(direction).is_empty(),
        }
    }

    fn rules(&self, direction: Direction) -> Vec<&Rule> {
        match self {
            Self::Namespaced(it) => it.rules(direction).unwrap_or_default().iter().collect(),
            Self::Cluster(it) => it.rules(direction).iter().map(|it| &it.matching).collect(),
        }
    }

    fn rank(&self) -> Rank {
        match self {
            Self::Namespaced(_) => Rank::Namespaced,
            Self::Cluster(it) => match it.tier {
                Tier::Admin => Rank::Admin(it.priority),
                Tier::Baseline => Rank::Baseline(it.priority),
            },
        }
    }
}

/// In which order policies are asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Rank {
    Admin(u16),
    Namespaced,
    Baseline(u16),
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

    /// As its terms are; none of a NetworkPolicy.
    pub(super) fn cluster_rules(&self, direction: Direction) -> &[ClusterRule] {
        match &self.content {
            Some(Content::Cluster(it)) => it.rules(direction),
            Some(Content::Namespaced(_)) | None => &[],
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
    /// In the order in which they are asked.
    pub(super) policies: Arc<[PolicyId]>,
    uses: usize,
    chains: Vec<String>,
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
    pub(super) fn change_policy(&mut self, key: &ObjectKey, after: Option<Content>) {
        let known = self.policy_ids.get(key).copied();
        let id = match (known, &after) {
            (None, None) => return,
            (Some(id), _) => id,
            (None, Some(_)) => {
                let id = self.policy_slots.take();
                let (ingress, egress) = (Side::default(), Side::default());
                let held = HeldPolicy { key: key.clone(), content: None, ingress, egress };
                self.policies.insert(id, held);
                self.policy_ids.insert(key.clone(), id);
                id
            }
        };
        let Some(held) = self.policies.get_mut(&id) else { return };
        if held.content == after {
            return;
        }
        let before = std::mem::replace(&mut held.content, after.clone());
        let selecting = self.selecting.entry(key.namespace.clone()).or_default();
        if let Some(before) = &before {
            selecting.remove(before.pods(), id);
        }
        if let Some(after) = &after {
            selecting.insert(after.pods(), id);
        }
        if selecting.is_empty() {
            self.selecting.remove(&key.namespace);
        }
        self.suspect_subjects_of(&key.namespace, id);
        for direction in Direction::ALL {
            self.rebuild(id, direction);
        }
        for subject in self.subjects_below(&key.namespace) {
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
            group.is_some_and(|it| it.policies.contains(&id))
        };
        let mut suspects = BTreeSet::new();
        for key in self.subjects_below(namespace) {
            for (address, applied) in self.subjects.get(&key).into_iter().flatten() {
                if holds(applied.ingress) || holds(applied.egress) {
                    suspects.insert(*address);
                }
            }
        }
        self.suspects.extend(suspects);
    }

    /// Whom a policy of this namespace can be about; one of none is about all.
    fn subjects_below(&self, namespace: &str) -> Vec<ObjectKey> {
        match namespace.is_empty() {
            true => self.subjects.keys().cloned().collect(),
            false => self.subjects_of(namespace),
        }
    }

    /// In the order in which they are asked. Where a NetworkPolicy isolates, the tier Baseline has
    /// no say.
    pub(super) fn selected_by(&self, key: &ObjectKey, direction: Direction) -> Vec<PolicyId> {
        let Some(known) = self.pods.get(key) else { return Vec::new() };
        let (labels, namespace) = (&known.labels, self.namespace_labels(&key.namespace));
        let holds = |it: &Content| match it {
            Content::Namespaced(it) => matches(&it.pods, labels),
            Content::Cluster(it) => it.subject.matches((&key.namespace, &namespace), labels),
        };
        let scopes = ["", &*key.namespace].into_iter().filter_map(|it| self.selecting.get(it));
        let ids = scopes.flat_map(|it| it.candidates(labels));
        let ranked = ids.filter_map(|id| {
            let held = self.policies.get(&id)?;
            let content = held.content.as_ref()?;
            (content.speaks(direction) && holds(content)).then(|| (content.rank(), &held.key, id))
        });
        let mut found: Vec<_> = ranked.collect();
        found.sort_unstable();
        found.dedup();
        let is_isolated = found.iter().any(|it| it.0 == Rank::Namespaced);
        found.retain(|it| !is_isolated || it.0 <= Rank::Namespaced);
        found.into_iter().map(|it| it.2).collect()
    }

    /// For a pod whose labels are not known: any policy of its namespace may be for it, and any that
    /// is about such namespaces.
    pub(super) fn closed(&self, namespace: &str, direction: Direction) -> Option<GroupId> {
        let labels = self.namespace_labels(namespace);
        let may_hold = |id: &PolicyId| {
            let content = self.policies.get(id).and_then(|it| it.content.as_ref());
            content.is_some_and(|it| {
                let is_meant = match it {
                    Content::Namespaced(_) => true,
                    Content::Cluster(it) => it.subject.has_namespace(namespace, &labels),
                };
                is_meant && it.speaks(direction)
            })
        };
        self.ids_of("").chain(self.ids_of(namespace)).any(may_hold).then_some(CLOSED)
    }

    fn ids_of<'a>(&'a self, namespace: &'a str) -> impl Iterator<Item = &'a PolicyId> {
        let all = self.policy_ids.range(ObjectKey::new(namespace, "")..);
        all.take_while(move |(key, _)| key.namespace == *namespace).map(|(_, id)| id)
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
        let policies = key.1.clone();
        self.groups.all.insert(id, Group { direction, policies, uses: 1, chains: Vec::new() });
        self.groups.by_policies.insert(key, id);
        self.put_group(id);
        Some(id)
    }

    /// The chains of a group, as what holds for it says now.
    fn put_group(&mut self, id: GroupId) {
        let Some(group) = self.groups.all.get(&id) else { return };
        let direction = group.direction;
        let rules = self.group_rules(group);
        let mut names = Vec::new();
        for side in &mut self.sides {
            for (name, chain) in chains::of_group(side.family, direction, id, &rules) {
                names.push(name.clone());
                side.put_chain(name, chain);
            }
        }
        names.sort_unstable();
        names.dedup();
        let Some(group) = self.groups.all.get_mut(&id) else { return };
        let before = std::mem::replace(&mut group.chains, names.clone());
        for name in before.iter().filter(|it| names.binary_search(it).is_err()) {
            self.sides.iter_mut().for_each(|it| it.remove_chain(name));
        }
    }

    fn group_rules(&self, group: &Group) -> GroupRules {
        let mut rules = GroupRules::default();
        for id in group.policies.iter() {
            let Some(held) = self.policies.get(id) else { continue };
            let all = match &held.content {
                Some(Content::Cluster(it)) if it.tier == Tier::Admin => &mut rules.admin,
                Some(Content::Cluster(_)) => &mut rules.baseline,
                Some(Content::Namespaced(_)) | None => {
                    rules.policies.push((*id, held.key.to_string()));
                    continue;
                }
            };
            let terms = held.rule_terms(group.direction);
            let written = held.cluster_rules(group.direction);
            all.extend(written.iter().zip(terms).map(|(rule, terms)| Tiered {
                label: format!("{} {}[{}]", held.key, group.direction.name(), rule.index),
                action: rule.action,
                asked: self.asked(terms),
            }));
        }
        rules
    }

    pub(super) fn release_groups(&mut self, applied: Applied) {
        for id in [applied.ingress, applied.egress].into_iter().flatten() {
            let Some(group) = self.groups.all.get_mut(&id) else { continue };
            group.uses -= 1;
            if group.uses > 0 {
                continue;
            }
            let Some(group) = self.groups.all.remove(&id) else { continue };
            let Group { direction, policies, chains, .. } = group;
            self.groups.slots.give_back(id);
            for name in &chains {
                self.sides.iter_mut().for_each(|it| it.remove_chain(name));
            }
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
        let content = held.content.clone();
        let side = held.side(direction);
        let is_held = side.n_groups > 0;
        let (old_rules, old_chains) =
            (std::mem::take(&mut side.rules), std::mem::take(&mut side.chains));
        let mut new_chains = Vec::new();
        if is_held {
            let rules = content.as_ref().map(|it| it.rules(direction)).unwrap_or_default();
            let rules: Vec<RuleTerms> = rules.into_iter().map(|it| self.acquire_rule(it)).collect();
            if let Some(held) = self.policies.get_mut(&id) {
                held.side(direction).rules = rules;
            }
            match content {
                Some(Content::Cluster(_)) => self.put_groups_of(id, direction),
                Some(Content::Namespaced(_)) | None => new_chains = self.put_policy(id, direction),
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

    /// The chains that groups jump to; says their names, sorted.
    fn put_policy(&mut self, id: PolicyId, direction: Direction) -> Vec<String> {
        let Some(held) = self.policies.get(&id) else { return Vec::new() };
        let label = held.key.to_string();
        let rules = held.rule_terms(direction);
        let asked: Vec<Asked> = rules.iter().map(|it| self.asked(it)).collect();
        let mut names = Vec::new();
        for side in &mut self.sides {
            for (name, chain) in chains::of_policy(side.family, direction, (id, &label), &asked) {
                names.push(name.clone());
                side.put_chain(name, chain);
            }
        }
        names.sort_unstable();
        names.dedup();
        if let Some(held) = self.policies.get_mut(&id) {
            held.side(direction).chains.clone_from(&names);
        }
        names
    }

    /// Rules of policies of the cluster are in the chains of the groups themselves.
    fn put_groups_of(&mut self, id: PolicyId, direction: Direction) {
        let has = |it: &Group| it.direction == direction && it.policies.contains(&id);
        let groups = self.groups.all.iter().filter(|it| has(it.1)).map(|it| *it.0);
        for group in groups.collect::<Vec<_>>() {
            self.put_group(group);
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
