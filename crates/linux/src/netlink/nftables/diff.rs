//! From what the kernel holds to what it should hold, with the fewest changes.
//!
//! Chains and sets stay in place where they can, so that nothing that is right is touched. A set
//! whose definition changed, or a chain whose hook did, cannot be changed while rules use it: then
//! the whole table is replaced, in the same transaction.

use std::collections::BTreeMap;

use super::change::Change;
use super::encode::{creation, rules_of};
use super::set::{Data, Element, Key, Signature};
use super::table::{Chain, Hook, Table};

/// What the kernel holds of one table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Observed {
    pub chains: BTreeMap<String, ObservedChain>,
    pub sets: BTreeMap<String, ObservedSet>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ObservedChain {
    pub hook: Option<Hook>,
    /// The signature of each rule; empty for one that is not ours.
    pub rules: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObservedSet {
    pub signature: Signature,
    /// None are read of dynamic sets.
    pub elements: BTreeMap<Key, Option<Data>>,
}

/// `observed`: `None` if there is no such table.
pub fn changes(observed: Option<&Observed>, desired: &Table) -> Vec<Change> {
    let Some(observed) = observed else { return creation(desired) };
    if !can_stay(observed, desired) {
        let mut changes = vec![Change::AddTable, Change::DeleteTable];
        changes.extend(creation(desired));
        return changes;
    }
    let mut changes = Vec::new();
    add_sets_and_chains(observed, desired, &mut changes);
    // Elements that go may be the last to name a chain that goes; elements that come may name a
    // chain that comes.
    let nothing = BTreeMap::new();
    for set in desired.sets.keys() {
        let wanted = desired.elements.get(set).unwrap_or(&nothing);
        let found = observed.sets.get(*set).map_or(&nothing, |it| &it.elements);
        changes.extend(element_changes(set, found, wanted));
    }
    remove_sets_and_chains(observed, desired, &mut changes);
    changes
}

fn can_stay(observed: &Observed, desired: &Table) -> bool {
    let has_same_sets = desired.sets.iter().all(|(name, set)| {
        observed.sets.get(*name).is_none_or(|it| it.signature == set.signature())
    });
    let has_same_hooks = desired
        .chains
        .iter()
        .all(|(name, chain)| observed.chains.get(name).is_none_or(|it| it.hook == chain.hook));
    has_same_sets && has_same_hooks
}

fn add_sets_and_chains(observed: &Observed, desired: &Table, changes: &mut Vec<Change>) {
    let is_new_set = |name: &&str| !observed.sets.contains_key(*name);
    for (name, set) in desired.sets.iter().filter(|(name, _)| is_new_set(name)) {
        changes.push(Change::AddSet(name, set.clone()));
    }
    for (name, chain) in &desired.chains {
        if !observed.chains.contains_key(name) {
            changes.push(Change::AddChain(name.clone(), chain.clone()));
        }
    }
    for (name, chain) in &desired.chains {
        let found = observed.chains.get(name).map(|it| it.rules.as_slice()).unwrap_or_default();
        if has_rules(chain, found) {
            continue;
        }
        if !found.is_empty() {
            changes.push(Change::FlushChain(name.clone()));
        }
        changes.extend(rules_of(name, chain));
    }
}

fn has_rules(chain: &Chain, found: &[String]) -> bool {
    chain.rules.len() == found.len()
        && chain.rules.iter().zip(found).all(|(rule, found)| rule.signature() == *found)
}

fn remove_sets_and_chains(observed: &Observed, desired: &Table, changes: &mut Vec<Change>) {
    let gone: Vec<_> =
        observed.chains.keys().filter(|it| !desired.chains.contains_key(*it)).collect();
    // Chains that go may use sets that go, whose elements may name chains that go; and chains may
    // jump to each other.
    for name in &gone {
        if !observed.chains[*name].rules.is_empty() {
            changes.push(Change::FlushChain((*name).clone()));
        }
    }
    let sets = observed.sets.keys().filter(|it| !desired.sets.contains_key(it.as_str()));
    changes.extend(sets.map(|it| Change::DeleteSet(it.clone())));
    changes.extend(gone.into_iter().map(|it| Change::DeleteChain(it.clone())));
}

/// Removals first: an element with other data is a removal and an addition, which one transaction
/// makes one step.
pub fn element_changes(
    set: &'static str,
    found: &BTreeMap<Key, Option<Data>>,
    wanted: &BTreeMap<Key, Option<Data>>,
) -> Vec<Change> {
    let keys: Vec<_> = found
        .iter()
        .filter(|(key, data)| wanted.get(*key) != Some(*data))
        .map(|(key, _)| key.clone())
        .collect();
    let elements: Vec<_> = wanted
        .iter()
        .filter(|(key, data)| found.get(*key) != Some(*data))
        .map(|(key, data)| Element { key: key.clone(), data: data.clone(), timeout: None })
        .collect();
    let mut changes = Vec::new();
    if !keys.is_empty() {
        changes.push(Change::DeleteElements { set, keys });
    }
    if !elements.is_empty() {
        changes.push(Change::AddElements { set, elements });
    }
    changes
}
