//! The table of one family as it should be, and what of it changed since the kernel was told: a
//! change costs what it touches, however much there is. Pure.

use std::collections::BTreeMap;
use std::net::IpAddr;

use linux::netlink::nftables::{
    Chain, Change, Data, Element, Key, Set, Table, Value, Verdict, creation,
};
use stdx::Family;

use super::chains;
use super::model::{Direction, Protocol};
use super::terms::{Member, Term};

/// What was there before it was touched first.
#[derive(Debug, Default)]
struct Touched {
    chains: BTreeMap<String, Option<Chain>>,
    sets: BTreeMap<&'static str, bool>,
    elements: BTreeMap<&'static str, BTreeMap<Key, Option<Option<Data>>>>,
}

#[derive(Debug)]
pub(super) struct Side {
    pub(super) family: Family,
    table: Table,
    touched: Touched,
    /// Whether the kernel has it.
    is_told: bool,
}

impl Side {
    pub(super) fn new(family: Family) -> Self {
        let sets: BTreeMap<_, _> = chains::sets(family).into_iter().collect();
        let elements = sets.keys().map(|it| (*it, BTreeMap::new())).collect();
        let table = Table { chains: chains::base(family), sets, elements };
        Self { family, table, touched: Touched::default(), is_told: false }
    }

    /// `None`: no pod of this node is isolated, and nothing is there.
    pub(super) fn table(&self) -> Option<&Table> {
        let has = |it: &Direction| {
            self.table.elements.get(chains::subjects(*it)).is_some_and(|it| !it.is_empty())
        };
        Direction::ALL.iter().any(has).then_some(&self.table)
    }

    /// Whatever is in the kernel, it will be made the same.
    pub(super) fn know_told(&mut self) {
        self.touched = Touched::default();
        self.is_told = self.table().is_some();
    }

    /// What makes of the table that the kernel was told of last the one of now.
    pub(super) fn take_changes(&mut self) -> Vec<Change> {
        let touched = std::mem::take(&mut self.touched);
        let is_there = self.table().is_some();
        let was_told = std::mem::replace(&mut self.is_told, is_there);
        match (was_told, self.table()) {
            (false, None) => Vec::new(),
            (false, Some(table)) => creation(table),
            (true, None) => vec![Change::DeleteTable],
            (true, Some(table)) => changes(touched, table),
        }
    }

    pub(super) fn put_chain(&mut self, name: String, chain: Chain) {
        let before = self.table.chains.insert(name.clone(), chain);
        self.touched.chains.entry(name).or_insert(before);
    }

    pub(super) fn remove_chain(&mut self, name: &str) {
        if let Some(before) = self.table.chains.remove(name) {
            self.touched.chains.entry(name.to_owned()).or_insert(Some(before));
        }
    }

    pub(super) fn put_set(&mut self, name: &'static str, set: Set) {
        let was_there = self.table.sets.insert(name, set).is_some();
        self.table.elements.entry(name).or_default();
        self.touched.sets.entry(name).or_insert(was_there);
    }

    pub(super) fn remove_set(&mut self, name: &'static str) {
        if self.table.sets.remove(name).is_some() {
            self.table.elements.remove(name);
            self.touched.sets.entry(name).or_insert(true);
        }
    }

    pub(super) fn put(&mut self, set: &'static str, key: Key, data: Option<Data>) {
        let Some(elements) = self.table.elements.get_mut(set) else { return };
        let before = elements.insert(key.clone(), data);
        self.touched.elements.entry(set).or_default().entry(key).or_insert(before);
    }

    pub(super) fn remove(&mut self, set: &'static str, key: &Key) {
        let Some(elements) = self.table.elements.get_mut(set) else { return };
        if let Some(before) = elements.remove(key) {
            let touched = self.touched.elements.entry(set).or_default();
            touched.entry(key.clone()).or_insert(Some(before));
        }
    }
}

fn changes(touched: Touched, table: &Table) -> Vec<Change> {
    let mut changes = Vec::new();
    for (name, was_there) in &touched.sets {
        if let Some(set) = table.sets.get(name).filter(|_| !was_there) {
            changes.push(Change::AddSet(name, set.clone()));
        }
    }
    let now = |name: &String| table.chains.get(name);
    for (name, before) in &touched.chains {
        if let Some(chain) = now(name).filter(|_| before.is_none()) {
            changes.push(Change::AddChain(name.clone(), chain.clone()));
        }
    }
    for (name, before) in &touched.chains {
        let Some(chain) = now(name).filter(|it| before.as_ref() != Some(*it)) else { continue };
        if before.as_ref().is_some_and(|it| !it.rules.is_empty()) {
            changes.push(Change::FlushChain(name.clone()));
        }
        let rules = chain.rules.iter().cloned();
        changes.extend(rules.map(|rule| Change::AddRule { chain: name.clone(), rule }));
    }
    for (set, keys) in touched.elements {
        changes.extend(element_changes(set, keys, table));
    }
    let gone = || touched.chains.iter().filter(|(name, _)| now(name).is_none());
    for (name, before) in gone() {
        if before.as_ref().is_some_and(|it| !it.rules.is_empty()) {
            changes.push(Change::FlushChain(name.clone()));
        }
    }
    for (name, was_there) in &touched.sets {
        if *was_there && !table.sets.contains_key(name) {
            changes.push(Change::DeleteSet((*name).to_owned()));
        }
    }
    for (name, before) in gone() {
        if before.is_some() {
            changes.push(Change::DeleteChain(name.clone()));
        }
    }
    changes
}

/// Those of a set that is gone go with it.
fn element_changes(
    set: &'static str,
    touched: BTreeMap<Key, Option<Option<Data>>>,
    table: &Table,
) -> Vec<Change> {
    let Some(now) = table.elements.get(set) else { return Vec::new() };
    let (mut keys, mut elements) = (Vec::new(), Vec::new());
    for (key, before) in touched {
        let after = now.get(&key);
        if before.as_ref() == after {
            continue;
        }
        if before.is_some() {
            keys.push(key.clone());
        }
        if let Some(data) = after {
            elements.push(Element { key, data: data.clone(), timeout: None });
        }
    }
    let removal = (!keys.is_empty()).then_some(Change::DeleteElements { set, keys });
    let addition = (!elements.is_empty()).then_some(Change::AddElements { set, elements });
    removal.into_iter().chain(addition).collect()
}

pub(super) fn goto(chain: String) -> Option<Data> {
    Some(Data::Verdict(Verdict::Goto(chain)))
}

pub(super) fn address(address: IpAddr) -> Key {
    Value::new().address(address).into()
}

pub(super) fn pair(address: IpAddr) -> Key {
    Value::new().address(address).address(address).into()
}

pub(super) fn port(address: IpAddr, protocol: Protocol, port: u16) -> Key {
    Value::new().address(address).protocol(protocol.number()).port(port).into()
}

pub(super) fn member(member: Member) -> Key {
    match member {
        Member::Address(it) => address(it),
        Member::Port(it, protocol, number) => port(it, protocol, number),
    }
}

/// What is in the set of a term from the beginning, whatever pods there are.
pub(super) fn fixed(term: &Term, family: Family) -> Vec<Key> {
    match term {
        Term::Pods(_) | Term::Named(..) => Vec::new(),
        Term::Ranges(ranges) => ranges
            .of(family)
            .flat_map(|it| {
                let end = super::ranges::after(it.last);
                let end = end.map(|it| Key { is_range_end: true, ..address(it) });
                [Some(address(it.first)), end].into_iter().flatten()
            })
            .collect(),
        Term::Numbers(numbers) => {
            let key = |(protocol, number): (Protocol, u16)| {
                Value::new().protocol(protocol.number()).port(number)
            };
            let range = |(protocol, first, last): &(Protocol, u16, u16)| {
                Element::range(key((*protocol, *first)), key((*protocol, *last))).key
            };
            numbers.iter().map(range).collect()
        }
    }
}
