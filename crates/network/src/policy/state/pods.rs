//! What a pod changes: which sets its addresses are in, and which policies hold for them.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use api::Pairs;
use apimachinery::ObjectKey;

use super::{Applied, Attached, State, side};
use crate::policy::model::{Direction, Pod};
use crate::policy::terms::{Member, TermId};
use crate::policy::{chains, tables};

/// What is known of whoever has an address of this node's pods.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Knowledge {
    Labels,
    /// It was attached a moment ago, and the API has not told of it here yet.
    Nothing,
}

impl State {
    pub(super) fn forget_places(&mut self, key: &ObjectKey) {
        let Some(known) = self.pods.get(key) else { return };
        for address in &known.addresses {
            if let Some(keys) = self.by_address.get_mut(address) {
                keys.remove(key);
                if keys.is_empty() {
                    self.by_address.remove(address);
                }
            }
        }
        let node = known.node.as_str();
        if let Some(keys) = self.on_host.get_mut(node) {
            keys.remove(key);
            if keys.is_empty() {
                self.on_host.remove(node);
            }
        }
    }

    pub(super) fn remember_places(&mut self, key: &ObjectKey, pod: &Pod) {
        for address in &pod.addresses {
            self.by_address.entry(*address).or_default().insert(key.clone());
        }
        if pod.is_on_host_network {
            self.on_host.entry(pod.node.as_str().to_owned()).or_default().insert(key.clone());
        }
    }

    /// Of a namespace, whoever knows of them.
    pub(super) fn pods_of(&self, namespace: &str) -> BTreeSet<ObjectKey> {
        let from = || ObjectKey::new(namespace, "")..;
        let known = self.pods.range(from()).map(|(key, _)| key);
        let known = known.take_while(|it| it.namespace == namespace).cloned();
        known.chain(self.subjects_of(namespace)).collect()
    }

    pub(super) fn subjects_of(&self, namespace: &str) -> Vec<ObjectKey> {
        let local = self.subjects.range(ObjectKey::new(namespace, "")..).map(|(key, _)| key);
        local.take_while(|it| it.namespace == namespace).cloned().collect()
    }

    /// The pod, and others that the API says have these addresses.
    pub(super) fn keys_at(&self, key: &ObjectKey, addresses: &[IpAddr]) -> BTreeSet<ObjectKey> {
        let others = addresses.iter().filter_map(|it| self.by_address.get(it)).flatten();
        others.chain([key]).cloned().collect()
    }

    /// Makes a change that concerns these pods, and what follows from it.
    pub(super) fn change(&mut self, keys: BTreeSet<ObjectKey>, change: impl FnOnce(&mut Self)) {
        let before: Vec<_> = keys.iter().map(|it| self.memberships(it)).collect();
        change(self);
        for (key, before) in keys.iter().zip(before) {
            self.change_members(key, &before);
        }
        for key in &keys {
            self.refresh_subject(key);
        }
    }

    /// Labels of a namespace that was not heard of yet: that which every one has.
    pub(super) fn namespace_labels(&self, name: &str) -> Pairs {
        self.namespaces
            .get(name)
            .cloned()
            .unwrap_or_else(|| [("kubernetes.io/metadata.name", name)].into_iter().collect())
    }

    /// By which others know the pod.
    fn peer_addresses(&self, key: &ObjectKey, pod: &Pod) -> BTreeSet<IpAddr> {
        let own = pod.addresses.iter().copied();
        if pod.is_on_host_network {
            let node = self.nodes.get(pod.node.as_str()).into_iter().flatten().copied();
            return if pod.has_ended { BTreeSet::new() } else { own.chain(node).collect() };
        }
        let is_free = |it: &IpAddr| self.claims.get(it).is_none_or(|owner| owner == key);
        let mut addresses: BTreeSet<IpAddr> = match pod.has_ended {
            true => BTreeSet::new(),
            false => own.filter(is_free).collect(),
        };
        let attached = self.attached.get(key).into_iter().flat_map(BTreeMap::values);
        let attached = attached.filter(|it| is_same(it, pod)).flat_map(|it| it.addresses.clone());
        addresses.extend(attached);
        addresses
    }

    /// Which sets it is in, of all that there are.
    pub(super) fn memberships(&self, key: &ObjectKey) -> BTreeSet<(TermId, Member)> {
        let Some(pod) = self.pods.get(key) else { return BTreeSet::new() };
        let addresses = self.peer_addresses(key, pod);
        if addresses.is_empty() {
            return BTreeSet::new();
        }
        let namespace = self.namespace_labels(&key.namespace);
        let of = (&*key.namespace, &namespace);
        let terms = self.terms.selecting(of, &pod.labels, pod.is_on_host_network);
        let mut members = BTreeSet::new();
        for address in addresses {
            members.extend(terms.iter().map(|it| (*it, Member::Address(address))));
            members.extend(
                self.terms.naming(pod).map(|(term, protocol, number)| {
                    (term, Member::Port(address, protocol, number))
                }),
            );
        }
        members
    }

    fn change_members(&mut self, key: &ObjectKey, before: &BTreeSet<(TermId, Member)>) {
        let after = self.memberships(key);
        for (term, member) in after.difference(before) {
            self.join(*term, *member);
        }
        let pod = self.pods.get(key);
        let still = pod.map(|it| self.peer_addresses(key, it)).unwrap_or_default();
        for (term, member) in before.difference(&after) {
            self.leave(*term, *member);
            // An address that is gone has no connections.
            if still.contains(&member.address()) {
                self.suspects.insert(member.address());
            }
        }
    }

    pub(super) fn join(&mut self, term: TermId, member: Member) {
        if !self.terms.add(term, member) {
            return;
        }
        let set = self.terms.get(term).map(|it| it.term.set_name(term));
        if let (Some(side), Some(set)) = (side(&mut self.sides, member.address()), set) {
            side.put(set, tables::member(member), None);
        }
    }

    fn leave(&mut self, term: TermId, member: Member) {
        if !self.terms.remove(term, member) {
            return;
        }
        let set = self.terms.get(term).map(|it| it.term.set_name(term));
        if let (Some(side), Some(set)) = (side(&mut self.sides, member.address()), set) {
            side.remove(set, &tables::member(member));
        }
    }

    /// The addresses of a pod of this node, with what is known of who has them.
    fn subject_addresses(&self, key: &ObjectKey) -> BTreeMap<IpAddr, Knowledge> {
        let known = self.pods.get(key);
        let mut addresses = BTreeMap::new();
        let is_here =
            |it: &&Pod| it.node.as_str() == self.node && !it.is_on_host_network && !it.has_ended;
        if let Some(pod) = known.filter(is_here) {
            let is_free = |it: &&IpAddr| self.claims.get(it).is_none_or(|owner| owner == key);
            let own = pod.addresses.iter().filter(is_free);
            addresses.extend(own.map(|it| (*it, Knowledge::Labels)));
        }
        for attached in self.attached.get(key).into_iter().flat_map(BTreeMap::values) {
            let knowledge = match known.is_some_and(|it| is_same(attached, it)) {
                true => Knowledge::Labels,
                false => Knowledge::Nothing,
            };
            addresses.extend(attached.addresses.iter().map(|it| (*it, knowledge)));
        }
        addresses
            .retain(|it, _| self.sides.iter().any(|side| side.family == stdx::Family::of(*it)));
        addresses
    }

    pub(super) fn refresh_subject(&mut self, key: &ObjectKey) {
        let addresses = self.subject_addresses(key);
        if addresses.is_empty() && !self.subjects.contains_key(key) {
            return;
        }
        let selected = Direction::ALL.map(|it| self.selected_by(key, it));
        let mut after = BTreeMap::new();
        for (address, knowledge) in addresses {
            let [ingress, egress] = Direction::ALL;
            let mut group = |direction: Direction| match knowledge {
                Knowledge::Labels => {
                    let policies = &selected[usize::from(direction == Direction::Egress)];
                    self.acquire_group(direction, policies)
                }
                Knowledge::Nothing => self.closed(&key.namespace, direction),
            };
            after.insert(address, Applied { ingress: group(ingress), egress: group(egress) });
        }
        let before = match after.is_empty() {
            true => self.subjects.remove(key),
            false => self.subjects.insert(key.clone(), after.clone()),
        };
        let before = before.unwrap_or_default();
        let addresses: BTreeSet<IpAddr> = before.keys().chain(after.keys()).copied().collect();
        for address in addresses {
            let was = self.applied_at(address);
            let of_address = self.by_subject_address.entry(address).or_default();
            match after.get(&address) {
                Some(applied) => of_address.insert(key.clone(), *applied),
                None => of_address.remove(key),
            };
            if of_address.is_empty() {
                self.by_subject_address.remove(&address);
            }
            self.apply_to(address, was, self.applied_at(address));
        }
        before.values().for_each(|it| self.release_groups(*it));
    }

    pub(super) fn applied_at(&self, address: IpAddr) -> Applied {
        let last = self.by_subject_address.get(&address).and_then(BTreeMap::last_key_value);
        last.map(|(_, it)| *it).unwrap_or_default()
    }

    fn apply_to(&mut self, address: IpAddr, before: Applied, after: Applied) {
        if before == after {
            return;
        }
        self.suspects.insert(address);
        let Some(side) = side(&mut self.sides, address) else { return };
        let of = |it: Applied| [(Direction::Ingress, it.ingress), (Direction::Egress, it.egress)];
        for ((direction, before), (_, after)) in of(before).into_iter().zip(of(after)) {
            let set = chains::subjects(direction);
            match after {
                Some(_) if before == after => {}
                Some(group) => {
                    let chain = self.groups.chain(group);
                    side.put(set, tables::address(address), tables::goto(chain));
                }
                None => side.remove(set, &tables::address(address)),
            }
        }
        match after == Applied::default() {
            true => {
                side.remove(chains::SELVES, &tables::pair(address));
                side.remove(chains::ISOLATED, &tables::address(address));
            }
            false => {
                side.put(chains::SELVES, tables::pair(address), None);
                side.put(chains::ISOLATED, tables::address(address), None);
            }
        }
    }
}

/// Of a pod that a file makes, the API has another uid than its node.
fn is_same(attached: &Attached, pod: &Pod) -> bool {
    pod.is_mirror || attached.uid.as_str() == &*pod.uid
}
