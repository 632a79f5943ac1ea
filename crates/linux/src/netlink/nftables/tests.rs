//! Changes against a model of the kernel, and what the encoder writes.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use proptest::prelude::*;

use super::expression::{Base, Comparison, Meta, Target, network_mask};
use super::*;

/// What the kernel would hold after the changes; panics where the kernel would refuse.
fn play(observed: Option<&Observed>, changes: &[Change]) -> Option<Observed> {
    let mut table = observed.cloned();
    for change in changes {
        match change {
            Change::AddTable => table = table.or_else(|| Some(Observed::default())),
            Change::DeleteTable => table = None,
            _ => play_one(table.as_mut().expect("a table"), change),
        }
    }
    table
}

fn play_one(table: &mut Observed, change: &Change) {
    match change {
        Change::AddTable | Change::DeleteTable => {}
        Change::AddSet(name, set) => {
            let set = ObservedSet { signature: set.signature(), elements: BTreeMap::new() };
            assert!(table.sets.insert((*name).to_owned(), set).is_none());
        }
        Change::DeleteSet(name) => assert!(table.sets.remove(name).is_some()),
        Change::AddChain(name, chain) => {
            let chain = ObservedChain { hook: chain.hook, rules: Vec::new() };
            assert!(table.chains.insert(name.clone(), chain).is_none());
        }
        Change::DeleteChain(name) => {
            let chain = table.chains.remove(name).expect("a chain");
            assert!(chain.rules.is_empty(), "busy");
            let goto = Some(Data::Verdict(Verdict::Goto(name.clone())));
            let is_named = |it: &ObservedSet| it.elements.values().any(|data| *data == goto);
            assert!(!table.sets.values().any(is_named), "busy");
        }
        Change::AddRule { chain, rule } => {
            table.chains.get_mut(chain).expect("a chain").rules.push(rule.signature());
        }
        Change::InsertRule { .. } | Change::DeleteRule { .. } => {
            panic!("a table of ours is changed chain by chain");
        }
        Change::FlushChain(name) => {
            table.chains.get_mut(name).expect("a chain").rules.clear();
        }
        Change::AddElements { set, elements } => {
            for element in elements {
                if let Some(Data::Verdict(Verdict::Goto(chain))) = &element.data {
                    assert!(table.chains.contains_key(chain));
                }
                let set = table.sets.get_mut(*set).expect("a set");
                assert!(set.elements.insert(element.key.clone(), element.data.clone()).is_none());
            }
        }
        Change::DeleteElements { set, keys } => {
            let set = table.sets.get_mut(*set).expect("a set");
            for key in keys {
                assert!(set.elements.remove(key).is_some());
            }
        }
    }
}

fn accept(comment: &str) -> Rule {
    Rule::new(comment, vec![Expression::Verdict(Verdict::Accept)])
}

const NAMES: [&str; 3] = ["one", "two", "three"];

/// Any table with a few sets, chains and elements that name chains.
fn tables() -> impl Strategy<Value = Table> {
    let chains = proptest::collection::btree_map(0..3usize, (0..3u8, 0..2u8), 0..3);
    let sets = proptest::collection::btree_map(
        0..3usize,
        (0..2u8, proptest::collection::btree_map(0..4u32, 0..4usize, 0..4)),
        0..3,
    );
    (chains, sets).prop_map(|(chains, sets)| {
        let mut table = Table::default();
        for (name, (n_rules, hook)) in chains {
            let rules = (0..n_rules).map(|it| accept(&it.to_string())).collect();
            let hook = (hook == 1).then_some(Hook::new(ChainKind::Nat, HookPoint::Input, 7));
            table.chains.insert(NAMES[name].to_owned(), Chain { hook, rules });
        }
        for (name, (kind, elements)) in sets {
            let set = match kind {
                0 => Set::of(&[Type::Mark]),
                _ => Set::verdict_map(&[Type::Mark]),
            };
            let data = |chain: usize| match NAMES.get(chain) {
                _ if kind == 0 => None,
                Some(chain) if table.chains.contains_key(*chain) => {
                    Some(Data::Verdict(Verdict::Goto((*chain).to_owned())))
                }
                _ => Some(Data::Verdict(Verdict::Drop)),
            };
            let elements = elements.into_iter();
            let elements = elements.map(|(key, it)| (Value::new().mark(key).into(), data(it)));
            table.elements.insert(NAMES[name], elements.collect());
            table.sets.insert(NAMES[name], set);
        }
        table
    })
}

proptest! {
    #[test]
    fn the_changes_from_one_table_to_another_lead_there(from in tables(), to in tables()) {
        let before = play(None, &changes(None, &from));
        let after = play(before.as_ref(), &changes(before.as_ref(), &to));
        prop_assert_eq!(&after, &play(None, &creation(&to)));
        prop_assert_eq!(changes(after.as_ref(), &to), vec![]);
    }
}

#[test]
fn one_element_more_is_one_change() {
    let mut table = Table::default();
    table.sets.insert("ports", Set::of(&[Type::Protocol, Type::Port]));
    let key = |port| Key::from(Value::new().protocol(6).port(port));
    table.elements.insert("ports", (0..1000).map(|it| (key(it), None)).collect());
    let before = play(None, &creation(&table));
    table.elements.entry("ports").or_default().insert(key(5000), None);
    let elements = vec![Element::of(key(5000))];
    let expected = vec![Change::AddElements { set: "ports", elements }];
    assert_eq!(changes(before.as_ref(), &table), expected);
}

#[test]
fn fields_of_a_key_are_padded_to_registers() {
    let key = Value::new().protocol(17).address(Ipv4Addr::new(10, 0, 0, 1)).port(0x1234);
    assert_eq!(key.as_bytes(), [17, 0, 0, 0, 10, 0, 0, 1, 0x12, 0x34, 0, 0]);
    let set = Set::map(&[Type::Protocol, Type::Ipv4Address, Type::Port], &[Type::Port]);
    let signature = set.signature();
    assert_eq!((signature.key_length, signature.data_length), (12, 2));
    assert_eq!(signature.key_type, 12 << 12 | 7 << 6 | 13);
}

#[test]
fn a_mask_has_as_many_ones_as_the_prefix_is_long() {
    let check = |length, expected: &str| assert_eq!(network_mask(length).to_string(), expected);
    check(0, "0.0.0.0");
    check(12, "255.240.0.0");
    check(32, "255.255.255.255");
    check(99, "255.255.255.255");
}

#[test]
fn the_signature_of_a_rule_follows_its_expressions() {
    let load = Expression::Meta { key: Meta::L4Protocol, into: Register(0) };
    let compare = |protocol| Expression::Compare {
        from: Register(0),
        comparison: Comparison::Equal,
        value: Value::raw(&[protocol]),
    };
    let rule = |protocol| Rule::new("tcp", vec![load.clone(), compare(protocol)]);
    assert_eq!(rule(6).signature(), rule(6).signature());
    assert_ne!(rule(6).signature(), rule(17).signature());
    assert!(rule(6).signature().starts_with("tcp #"));
}

#[test]
fn expressions_are_written_as_the_kernel_reads_them() {
    let rule = Rule::new(
        "",
        vec![
            Expression::Payload { base: Base::Network, offset: 16, length: 4, into: Register(1) },
            Expression::Lookup { set: "s", key: Register(1), target: Target::Verdict },
        ],
    );
    #[rustfmt::skip]
    let expected: &[u8] = &[
        52, 0, 1, 0x80,
            12, 0, 1, 0, b'p', b'a', b'y', b'l', b'o', b'a', b'd', 0,
            36, 0, 2, 0x80,
                8, 0, 1, 0, 0, 0, 0, 9,
                8, 0, 2, 0, 0, 0, 0, 1,
                8, 0, 3, 0, 0, 0, 0, 16,
                8, 0, 4, 0, 0, 0, 0, 4,
        44, 0, 1, 0x80,
            11, 0, 1, 0, b'l', b'o', b'o', b'k', b'u', b'p', 0, 0,
            28, 0, 2, 0x80,
                6, 0, 1, 0, b's', 0, 0, 0,
                8, 0, 2, 0, 0, 0, 0, 9,
                8, 0, 3, 0, 0, 0, 0, 0,
    ];
    if cfg!(target_endian = "little") {
        assert_eq!(rule.encode_expressions(TableFamily::Ip).as_bytes(), expected);
    }
}
