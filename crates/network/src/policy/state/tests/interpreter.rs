//! As much of nftables as the tables of policies use: takes changes as the kernel does, refusing
//! what it would refuse, and judges packets.

use std::collections::BTreeMap;
use std::net::IpAddr;

use linux::netlink::nftables::expression::{Base, Comparison, Conntrack, Meta, Target, ct_state};
use linux::netlink::nftables::{
    Chain, Change, Data, Expression, HookPoint, Key, Rule, Table, Value, Verdict,
};
use stdx::Family;

use super::super::State;
use super::super::decide::Connection;
use crate::policy::model::Protocol;

#[derive(Debug, Default)]
pub(super) struct Kernel {
    tables: BTreeMap<Family, Table>,
}

impl Kernel {
    pub(super) fn is_empty(&self) -> bool {
        self.tables.is_empty()
    }

    pub(super) fn apply(&mut self, family: Family, changes: &[Change]) {
        for change in changes {
            self.apply_one(family, change);
        }
        if let Some(table) = self.tables.get(&family) {
            validate(table);
        }
    }

    fn apply_one(&mut self, family: Family, change: &Change) {
        match change {
            Change::AddTable => {
                self.tables.entry(family).or_default();
            }
            Change::DeleteTable => {
                self.tables.remove(&family).expect("a table");
            }
            other => change_table(self.tables.get_mut(&family).expect("a table"), other),
        }
    }

    pub(super) fn check_same(&self, state: &State) {
        for (family, wanted) in state.tables() {
            assert_eq!(self.tables.get(&family), wanted);
        }
    }

    /// Forwarded, and the first of its connection.
    pub(super) fn passes(&self, connection: &Connection) -> bool {
        self.passes_at(HookPoint::Forward, connection)
    }

    pub(super) fn passes_to_node(&self, connection: &Connection) -> bool {
        self.passes_at(HookPoint::Input, connection)
    }

    fn passes_at(&self, point: HookPoint, connection: &Connection) -> bool {
        let family = Family::of(connection.source);
        let Some(table) = self.tables.get(&family) else { return true };
        let at = |it: &&Chain| it.hook.is_some_and(|it| it.point == point);
        let mut chains: Vec<&Chain> = table.chains.values().filter(at).collect();
        chains.sort_by_key(|it| it.hook.map(|it| it.priority));
        chains.iter().all(|it| judge(table, it, connection) != Some(Verdict::Drop))
    }
}

fn change_table(table: &mut Table, change: &Change) {
    match change {
        Change::AddTable | Change::DeleteTable => unreachable!("of no table"),
        Change::AddSet(name, set) => {
            assert!(table.sets.insert(name, set.clone()).is_none(), "{name} is there");
            table.elements.insert(name, BTreeMap::new());
        }
        Change::DeleteSet(name) => {
            assert!(!uses(table, name), "{name} is in use");
            table.sets.remove(name.as_str()).expect("a set");
            table.elements.remove(name.as_str());
        }
        Change::AddChain(name, chain) => {
            let chain = Chain { rules: Vec::new(), ..chain.clone() };
            assert!(table.chains.insert(name.clone(), chain).is_none(), "{name} is there");
        }
        Change::DeleteChain(name) => {
            assert!(!is_target(table, name), "{name} is in use");
            let chain = table.chains.remove(name).expect("a chain");
            assert!(chain.rules.is_empty(), "{name} has rules");
        }
        Change::AddRule { chain, rule } => {
            table.chains.get_mut(chain).expect("a chain").rules.push(rule.clone());
        }
        Change::InsertRule { .. } | Change::DeleteRule { .. } => {
            panic!("a table of ours is changed chain by chain");
        }
        Change::FlushChain(name) => table.chains.get_mut(name).expect("a chain").rules.clear(),
        Change::AddElements { set, elements } => {
            let all = table.elements.get_mut(set).expect("a set");
            for element in elements {
                let before = all.insert(element.key.clone(), element.data.clone());
                assert!(before.is_none(), "{:?} is in {set}", element.key);
            }
        }
        Change::DeleteElements { set, keys } => {
            let all = table.elements.get_mut(set).expect("a set");
            for key in keys {
                all.remove(key).unwrap_or_else(|| panic!("{key:?} is not in {set}"));
            }
        }
    }
}

fn expressions(table: &Table) -> impl Iterator<Item = &Expression> {
    table.chains.values().flat_map(|it| &it.rules).flat_map(|it: &Rule| &it.expressions)
}

fn uses(table: &Table, name: &str) -> bool {
    expressions(table).any(|it| matches!(it, Expression::Lookup { set, .. } if *set == name))
}

fn targets(table: &Table) -> impl Iterator<Item = &String> {
    let of_rules = expressions(table).filter_map(|it| match it {
        Expression::Verdict(it) => Some(it),
        _ => None,
    });
    let of_maps = table.elements.values().flat_map(BTreeMap::values).filter_map(|it| match it {
        Some(Data::Verdict(it)) => Some(it),
        _ => None,
    });
    of_rules.chain(of_maps).filter_map(|it| match it {
        Verdict::Jump(chain) | Verdict::Goto(chain) => Some(chain),
        _ => None,
    })
}

fn is_target(table: &Table, name: &str) -> bool {
    targets(table).any(|it| it == name)
}

/// Everything that is named is there.
fn validate(table: &Table) {
    for name in targets(table) {
        assert!(table.chains.contains_key(name), "no chain {name}");
    }
    for expression in expressions(table) {
        if let Expression::Lookup { set, .. } = expression {
            assert!(table.sets.contains_key(set), "no set {set}");
        }
    }
}

/// `None`: to the end of the chain.
fn judge(table: &Table, chain: &Chain, connection: &Connection) -> Option<Verdict> {
    for rule in &chain.rules {
        let verdict = match run(table, rule, connection) {
            Some(Verdict::Jump(name)) => judge(table, &table.chains[&name], connection),
            Some(Verdict::Goto(name)) => return judge(table, &table.chains[&name], connection),
            other => other,
        };
        if matches!(verdict, Some(Verdict::Accept | Verdict::Drop)) {
            return verdict;
        }
    }
    None
}

fn run(table: &Table, rule: &Rule, connection: &Connection) -> Option<Verdict> {
    let mut registers = [0; 64];
    for expression in &rule.expressions {
        match expression {
            Expression::Payload { base, offset, length, into } => {
                let bytes = payload(connection, *base, *offset, *length);
                load(&mut registers, into.0, &bytes);
            }
            Expression::Meta { key: Meta::L4Protocol, into } => {
                load(&mut registers, into.0, &[connection.protocol.number()]);
            }
            Expression::Conntrack { key: Conntrack::State, into, .. } => {
                load(&mut registers, into.0, &ct_state::NEW.to_ne_bytes());
            }
            Expression::Bitwise { from, into, mask, xor } => {
                let bytes: Vec<u8> = at(&registers, from.0, mask.as_bytes().len())
                    .iter()
                    .zip(mask.as_bytes().iter().zip(xor.as_bytes()))
                    .map(|(byte, (mask, xor))| byte & mask ^ xor)
                    .collect();
                load(&mut registers, into.0, &bytes);
            }
            Expression::Compare { from, comparison, value } => {
                let is_equal = at(&registers, from.0, value.as_bytes().len()) == value.as_bytes();
                let holds = match comparison {
                    Comparison::Equal => is_equal,
                    Comparison::NotEqual => !is_equal,
                    other => panic!("{other:?}"),
                };
                if !holds {
                    return None;
                }
            }
            Expression::Lookup { set, key, target } => {
                let length = table.sets[set].signature().key_length as usize;
                let found = look_up(table, set, at(&registers, key.0, length));
                match (target, found?) {
                    (Target::Member, _) => {}
                    (Target::Verdict, Some(Data::Verdict(it))) => return Some(it.clone()),
                    other => panic!("{other:?}"),
                }
            }
            Expression::Verdict(it) => return Some(it.clone()),
            other => panic!("{other:?}"),
        }
    }
    None
}

fn load(registers: &mut [u8; 64], first: u8, bytes: &[u8]) {
    let from = usize::from(first) * 4;
    registers[from..from + bytes.len().next_multiple_of(4)].fill(0);
    registers[from..from + bytes.len()].copy_from_slice(bytes);
}

fn at(registers: &[u8; 64], first: u8, length: usize) -> &[u8] {
    &registers[usize::from(first) * 4..][..length]
}

fn octets(address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(it) => it.octets().to_vec(),
        IpAddr::V6(it) => it.octets().to_vec(),
    }
}

fn payload(connection: &Connection, base: Base, offset: u32, length: u32) -> Vec<u8> {
    const SYN: u8 = 0x02;
    let bytes = match (base, offset, connection.source.is_ipv4()) {
        (Base::Network, 12, true) | (Base::Network, 8, false) => octets(connection.source),
        (Base::Network, 16, true) | (Base::Network, 24, false) => octets(connection.destination),
        (Base::Transport, 2, _) => connection.port.to_be_bytes().to_vec(),
        (Base::Transport, 13, _) if connection.protocol == Protocol::Tcp => vec![SYN],
        other => panic!("{other:?}"),
    };
    assert_eq!(bytes.len(), length as usize);
    bytes
}

/// The element that has the key.
fn look_up<'a>(table: &'a Table, set: &str, key: &[u8]) -> Option<&'a Option<Data>> {
    let elements = &table.elements[set];
    let definition = &table.sets[set];
    if !definition.is_interval {
        return elements.get(&Key::from(Value::raw(key)));
    }
    if definition.key.len() == 1 {
        let before = elements.iter().rfind(|(it, _)| it.start.as_bytes() <= key);
        return before.filter(|(it, _)| !it.is_range_end).map(|(_, data)| data);
    }
    let is_in = |it: &Key| {
        let end = it.end.as_ref().unwrap_or(&it.start);
        let ends = it.start.as_bytes().chunks(4).zip(end.as_bytes().chunks(4));
        key.chunks(4).zip(ends).all(|(key, (first, last))| first <= key && key <= last)
    };
    elements.iter().find(|(it, _)| is_in(it)).map(|(_, data)| data)
}
