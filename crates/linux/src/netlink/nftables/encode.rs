//! Changes to messages.

use std::time::Duration;

use super::change::Change;
use super::numbers::{
    SUBSYSTEM, chain, data, element, elements, hook, list, message, rule, set, table, verdict,
};
use super::set::{Data, DataType, Element, Key, Set, Type, Value, Verdict};
use super::table::{Chain, Policy, Rule, Table, TableId};
use crate::netlink::message::flags;
use crate::netlink::{Attributes, Message};

/// An attribute is at most 64 KiB long, and an element takes at most about 200 bytes.
const ELEMENTS_PER_MESSAGE: usize = 256;

/// How nft keeps the byte order of a key of one field, for showing it: kind, length, number.
const KEY_IN_HOST_ORDER: [u8; 6] = {
    let [a, b, c, d] = 1u32.to_ne_bytes();
    [0, 4, a, b, c, d]
};

pub(super) fn header(id: &TableId, doing: String, kind: u16, flags: u16) -> Message {
    Message::new(doing, SUBSYSTEM << 8 | kind, flags, &[id.family as u8, 0, 0, 0])
}

pub(super) fn milliseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// Messages of these changes, in their order.
pub fn messages(id: &TableId, changes: &[Change]) -> Vec<Message> {
    let mut messages = Vec::new();
    for (index, change) in changes.iter().enumerate() {
        match change {
            Change::AddTable => messages.push(table_message(id, message::NEW_TABLE)),
            Change::DeleteTable => messages.push(table_message(id, message::DELETE_TABLE)),
            Change::AddSet(name, set) => messages.push(add_set(id, name, set, index)),
            Change::DeleteSet(name) => messages.push(delete_set(id, name)),
            Change::AddChain(name, chain) => messages.push(add_chain(id, name, chain)),
            Change::DeleteChain(name) => messages.push(delete_chain(id, name)),
            Change::AddRule { chain, rule } => messages.push(add_rule(id, chain, None, rule)),
            Change::InsertRule { chain, before, rule } => {
                messages.push(add_rule(id, chain, Some(*before), rule));
            }
            Change::DeleteRule { chain, handle } => messages.push(delete_rule(id, chain, *handle)),
            Change::FlushChain(name) => messages.push(flush_chain(id, name)),
            Change::AddElements { set, elements } => {
                messages.extend(elements.chunks(ELEMENTS_PER_MESSAGE).map(|chunk| {
                    let doing = format!("add {} elements to {id} {set}", chunk.len());
                    element_message(id, (doing, message::NEW_ELEMENTS, flags::CREATE), set, chunk)
                }));
            }
            Change::DeleteElements { set, keys } => {
                messages.extend(keys.chunks(ELEMENTS_PER_MESSAGE).map(|chunk| {
                    let doing = format!("delete {} elements of {id} {set}", chunk.len());
                    let chunk: Vec<_> = chunk.iter().cloned().map(Element::of).collect();
                    element_message(id, (doing, message::DELETE_ELEMENTS, 0), set, &chunk)
                }));
            }
        }
    }
    messages
}

fn table_message(id: &TableId, kind: u16) -> Message {
    let (verb, flags) = match kind {
        message::NEW_TABLE => ("add", flags::CREATE),
        _ => ("delete", 0),
    };
    header(id, format!("{verb} table {id}"), kind, flags).with(|it| {
        it.string(table::NAME, &id.name);
    })
}

fn add_set(id: &TableId, name: &str, definition: &Set, index: usize) -> Message {
    let signature = definition.signature();
    let doing = format!("add set {id} {name}");
    header(id, doing, message::NEW_SET, flags::CREATE).with(|it| {
        it.string(set::TABLE, &id.name).string(set::NAME, name);
        it.u32_be(set::ID, u32::try_from(index + 1).unwrap_or(u32::MAX));
        it.u32_be(set::FLAGS, signature.flags);
        it.u32_be(set::KEY_TYPE, signature.key_type).u32_be(set::KEY_LENGTH, signature.key_length);
        if let Some(data) = &definition.data {
            it.u32_be(set::DATA_TYPE, signature.data_type);
            if matches!(data, DataType::Value(_)) {
                it.u32_be(set::DATA_LENGTH, signature.data_length);
            }
        }
        if *definition.key == [Type::Mark] {
            it.bytes(set::USER_DATA, &KEY_IN_HOST_ORDER);
        }
        it.nest(set::DESCRIPTION, |it| {
            if let Some(size) = definition.dynamic {
                it.u32_be(set::DESCRIPTION_SIZE, size);
            }
            if definition.is_concatenated_interval() {
                it.nest(set::DESCRIPTION_CONCATENATION, |it| {
                    for length in definition.field_lengths() {
                        it.nest(list::ELEMENT, |it| {
                            it.u32_be(set::FIELD_LENGTH, length);
                        });
                    }
                });
            }
        });
    })
}

fn delete_set(id: &TableId, name: &str) -> Message {
    header(id, format!("delete set {id} {name}"), message::DELETE_SET, 0).with(|it| {
        it.string(set::TABLE, &id.name).string(set::NAME, name);
    })
}

fn add_chain(id: &TableId, name: &str, definition: &Chain) -> Message {
    let doing = format!("add chain {id} {name}");
    header(id, doing, message::NEW_CHAIN, flags::CREATE).with(|it| {
        it.string(chain::TABLE, &id.name).string(chain::NAME, name);
        let Some(base) = definition.hook else { return };
        it.nest(chain::HOOK, |it| {
            it.u32_be(hook::NUMBER, base.point as u32);
            it.bytes(hook::PRIORITY, &base.priority.to_be_bytes());
        });
        it.u32_be(chain::POLICY, base.policy as u32).string(chain::TYPE, base.kind.name());
    })
}

fn delete_chain(id: &TableId, name: &str) -> Message {
    header(id, format!("delete chain {id} {name}"), message::DELETE_CHAIN, 0).with(|it| {
        it.string(chain::TABLE, &id.name).string(chain::NAME, name);
    })
}

/// Without a rule that it comes before, it is the last one.
fn add_rule(id: &TableId, name: &str, before: Option<u64>, definition: &Rule) -> Message {
    let doing = format!("add rule \"{}\" to {id} {name}", definition.comment);
    let place = if before.is_some() { 0 } else { flags::APPEND };
    header(id, doing, message::NEW_RULE, flags::CREATE | place).with(|it| {
        it.string(rule::TABLE, &id.name).string(rule::CHAIN, name);
        if let Some(handle) = before {
            it.u64_be(rule::POSITION, handle);
        }
        it.nested(rule::EXPRESSIONS, &definition.encode_expressions(id.family));
        it.bytes(rule::USER_DATA, &comment(&definition.signature()));
    })
}

fn delete_rule(id: &TableId, name: &str, handle: u64) -> Message {
    header(id, format!("delete a rule of {id} {name}"), message::DELETE_RULE, 0).with(|it| {
        it.string(rule::TABLE, &id.name).string(rule::CHAIN, name);
        it.u64_be(rule::HANDLE, handle);
    })
}

/// As nft keeps a rule's comment: kind, length, and the text with a zero byte.
fn comment(text: &str) -> Vec<u8> {
    const COMMENT: u8 = 0;
    let length = u8::try_from(text.len() + 1).unwrap_or(u8::MAX);
    let mut bytes = vec![COMMENT, length];
    bytes.extend_from_slice(&text.as_bytes()[..usize::from(length) - 1]);
    bytes.push(0);
    bytes
}

fn flush_chain(id: &TableId, name: &str) -> Message {
    header(id, format!("flush chain {id} {name}"), message::DELETE_RULE, 0).with(|it| {
        it.string(rule::TABLE, &id.name).string(rule::CHAIN, name);
    })
}

fn element_message(
    id: &TableId,
    (doing, kind, flags): (String, u16, u16),
    set: &str,
    chunk: &[Element],
) -> Message {
    header(id, doing, kind, flags).with(|it| {
        it.string(elements::TABLE, &id.name).string(elements::SET, set);
        it.nest(elements::LIST, |it| {
            for element in chunk {
                it.nest(list::ELEMENT, |it| encode_element(element, it));
            }
        });
    })
}

fn encode_element(definition: &Element, to: &mut Attributes) {
    let Key { start, end, is_range_end } = &definition.key;
    if *is_range_end {
        to.u32_be(element::FLAGS, element::INTERVAL_END);
    }
    to.nest(element::KEY, |it| value(start, it));
    if let Some(end) = end {
        to.nest(element::KEY_END, |it| value(end, it));
    }
    match &definition.data {
        None => {}
        Some(Data::Value(it)) => {
            to.nest(element::DATA, |to| value(it, to));
        }
        Some(Data::Verdict(it)) => {
            to.nest(element::DATA, |to| verdict(it, to));
        }
    }
    if let Some(timeout) = definition.timeout {
        to.u64_be(element::TIMEOUT, milliseconds(timeout));
    }
}

fn value(value: &Value, to: &mut Attributes) {
    to.bytes(data::VALUE, value.as_bytes());
}

const RETURN: i32 = -5;
const GOTO: i32 = -4;
const JUMP: i32 = -3;

pub(super) fn verdict(verdict: &Verdict, to: &mut Attributes) {
    let (code, target) = match verdict {
        Verdict::Drop => (Policy::Drop as i32, None),
        Verdict::Accept => (Policy::Accept as i32, None),
        Verdict::Return => (RETURN, None),
        Verdict::Jump(chain) => (JUMP, Some(chain)),
        Verdict::Goto(chain) => (GOTO, Some(chain)),
    };
    to.nest(data::VERDICT, |it| {
        it.bytes(verdict::CODE, &code.to_be_bytes());
        if let Some(chain) = target {
            it.string(verdict::CHAIN, chain);
        }
    });
}

pub(super) fn read_verdict(code: i32, chain: Option<&str>) -> Option<Verdict> {
    let chain = chain.map(str::to_owned);
    match code {
        0 => Some(Verdict::Drop),
        1 => Some(Verdict::Accept),
        RETURN => Some(Verdict::Return),
        JUMP => chain.map(Verdict::Jump),
        GOTO => chain.map(Verdict::Goto),
        _ => None,
    }
}

/// The whole table, from nothing.
pub fn creation(desired: &Table) -> Vec<Change> {
    let mut changes = vec![Change::AddTable];
    changes.extend(desired.sets.iter().map(|(name, set)| Change::AddSet(name, set.clone())));
    for (name, chain) in &desired.chains {
        changes.push(Change::AddChain(name.clone(), chain.clone()));
    }
    for (name, chain) in &desired.chains {
        changes.extend(rules_of(name, chain));
    }
    for (set, elements) in &desired.elements {
        let elements: Vec<_> = elements
            .iter()
            .map(|(key, data)| Element { key: key.clone(), data: data.clone(), timeout: None })
            .collect();
        if !elements.is_empty() {
            changes.push(Change::AddElements { set, elements });
        }
    }
    changes
}

pub(super) fn rules_of(name: &str, chain: &Chain) -> impl Iterator<Item = Change> {
    let rules = chain.rules.iter().cloned();
    rules.map(move |rule| Change::AddRule { chain: name.to_owned(), rule })
}
