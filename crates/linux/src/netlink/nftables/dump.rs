//! Reading what the kernel holds of a table.

use std::collections::BTreeMap;

use rustix::io::Errno;

use super::diff::{Observed, ObservedChain, ObservedSet};
use super::encode::{header, read_verdict};
use super::numbers::{
    SUBSYSTEM, chain, data, element, elements, hook, message, rule, set, table, verdict,
};
use super::set::{Data, Key, Signature, Value};
use super::table::{ChainKind, Hook, HookPoint, Policy, TableFamily, TableId};
use crate::netlink::attributes::Reader;
use crate::netlink::{Attribute, Attributes, Error, Message, Reply, Socket};

/// Length of `struct nfgenmsg`.
const FIXED: usize = 4;

/// `None` if there is no such table. What somebody else changes meanwhile may be seen or not.
pub(super) fn observe(socket: &mut Socket, id: &TableId) -> Result<Option<Observed>, Error> {
    let ask = header(id, format!("read table {id}"), message::GET_TABLE, 0).with(|it| {
        it.string(table::NAME, &id.name);
    });
    match socket.ask(&ask) {
        Ok(_) => {}
        Err(err) if err.is(Errno::NOENT) => return Ok(None),
        Err(err) => return Err(err),
    }
    let mut observed = Observed::default();
    for reply in dump(socket, id, message::GET_CHAIN, |_| {})? {
        if let Some((name, chain)) = read_chain(id, &reply) {
            observed.chains.insert(name, chain);
        }
    }
    for reply in dump(socket, id, message::GET_RULE, |_| {})? {
        if let Some((name, signature)) = read_rule(id, &reply) {
            observed.chains.entry(name).or_default().rules.push(signature);
        }
    }
    for reply in dump(socket, id, message::GET_SET, |_| {})? {
        let Some((name, signature)) = read_set(id, &reply) else { continue };
        let is_ours = signature.flags & set::DYNAMIC == 0;
        let elements =
            if is_ours { read_set_elements(socket, id, &name)? } else { BTreeMap::new() };
        observed.sets.insert(name, ObservedSet { signature, elements });
    }
    Ok(Some(observed))
}

/// Of the families that we know.
pub(super) fn tables(socket: &mut Socket) -> Result<Vec<TableId>, Error> {
    let any = Message::new("list tables", SUBSYSTEM << 8 | message::GET_TABLE, 0, &[0; FIXED]);
    Ok(socket.dump(&any)?.iter().filter_map(read_table).collect())
}

fn read_table(reply: &Reply) -> Option<TableId> {
    let known = [TableFamily::Inet, TableFamily::Ip, TableFamily::Ip6];
    let family = known.into_iter().find(|it| Some(&(*it as u8)) == reply.payload.first())?;
    Some(TableId::new(family, string(&reply.attributes(FIXED), table::NAME)?))
}

/// How often a set is read whose hash table grows meanwhile.
const READS_MAX: usize = 8;

/// The kernel continues a long dump by skipping as many elements as it has told. If the set's hash
/// table is resized in between, which it is in the background after many elements were added, their
/// order changes: as many are missed as come twice. So a reading in which one comes twice is not
/// the last.
fn read_set_elements(
    socket: &mut Socket,
    id: &TableId,
    name: &str,
) -> Result<BTreeMap<Key, Option<Data>>, Error> {
    let mut found = BTreeMap::new();
    for _ in 0..READS_MAX {
        let replies = dump(socket, id, message::GET_ELEMENTS, |it| {
            it.string(elements::SET, name);
        })?;
        let mut n_read = 0;
        let read: BTreeMap<Key, Option<Data>> =
            replies.iter().flat_map(read_elements).inspect(|_| n_read += 1).collect();
        let is_whole = read.len() == n_read;
        found.extend(read);
        if is_whole {
            break;
        }
    }
    Ok(found)
}

/// The attribute that names the table has the same number for chains, rules, sets and elements.
pub(super) fn dump(
    socket: &mut Socket,
    id: &TableId,
    kind: u16,
    write: impl FnOnce(&mut Attributes),
) -> Result<Vec<Reply>, Error> {
    let ask = header(id, format!("read the contents of table {id}"), kind, 0).with(|it| {
        it.string(chain::TABLE, &id.name);
        write(it);
    });
    socket.dump(&ask)
}

fn is_of(id: &TableId, reply: &Reply) -> bool {
    reply.payload.first() == Some(&(id.family as u8))
        && string(&reply.attributes(FIXED), chain::TABLE).as_deref() == Some(&*id.name)
}

pub(super) fn string(attributes: &Reader<'_>, kind: u16) -> Option<String> {
    attributes.find_kind(kind).and_then(Attribute::string).map(str::to_owned)
}

pub(super) fn number(attributes: &Reader<'_>, kind: u16) -> Option<u32> {
    attributes.find_kind(kind).and_then(Attribute::u32_be)
}

/// Whatever kind of message it is.
pub(super) fn read_any(reply: &Reply) {
    let id = TableId::new(TableFamily::Ip, "table");
    let _ = (read_chain(&id, reply), read_rule(&id, reply), read_set(&id, reply));
    let _ = read_table(reply);
    super::foreign::read_any(reply);
    read_elements(reply).for_each(drop);
}

fn read_chain(id: &TableId, reply: &Reply) -> Option<(String, ObservedChain)> {
    let attributes = reply.attributes(FIXED);
    let name = string(&attributes, chain::NAME).filter(|_| is_of(id, reply))?;
    let hook = attributes.find_kind(chain::HOOK).and_then(|it| read_hook(&attributes, it));
    Some((name, ObservedChain { hook, rules: Vec::new() }))
}

pub(super) fn read_hook(attributes: &Reader<'_>, nested: Attribute<'_>) -> Option<Hook> {
    let point = match number(&nested.nested(), hook::NUMBER)? {
        0 => HookPoint::Prerouting,
        1 => HookPoint::Input,
        2 => HookPoint::Forward,
        3 => HookPoint::Output,
        4 => HookPoint::Postrouting,
        _ => return None,
    };
    let kind = match string(attributes, chain::TYPE)?.as_str() {
        "filter" => ChainKind::Filter,
        "nat" => ChainKind::Nat,
        "route" => ChainKind::Route,
        _ => return None,
    };
    let policy = match number(attributes, chain::POLICY)? {
        0 => Policy::Drop,
        _ => Policy::Accept,
    };
    let priority = number(&nested.nested(), hook::PRIORITY)?.cast_signed();
    Some(Hook { kind, point, priority, policy })
}

fn read_rule(id: &TableId, reply: &Reply) -> Option<(String, String)> {
    let attributes = reply.attributes(FIXED);
    let name = string(&attributes, rule::CHAIN).filter(|_| is_of(id, reply))?;
    let comment = attributes.find_kind(rule::USER_DATA).and_then(|it| read_comment(it.payload));
    Some((name, comment.unwrap_or_default()))
}

/// See `encode::comment`.
pub(super) fn read_comment(bytes: &[u8]) -> Option<String> {
    let [0, length, rest @ ..] = bytes else { return None };
    let text = rest.get(..usize::from(*length).checked_sub(1)?)?;
    String::from_utf8(text.to_vec()).ok()
}

fn read_set(id: &TableId, reply: &Reply) -> Option<(String, Signature)> {
    let attributes = reply.attributes(FIXED);
    let name = string(&attributes, set::NAME).filter(|_| is_of(id, reply))?;
    let description = attributes.find_kind(set::DESCRIPTION);
    let size = description.and_then(|it| number(&it.nested(), set::DESCRIPTION_SIZE));
    let of = |kind| number(&attributes, kind).unwrap_or(0);
    let data_type = of(set::DATA_TYPE);
    let is_verdict = data_type == data::TYPE_VERDICT;
    let signature = Signature {
        flags: of(set::FLAGS),
        key_type: of(set::KEY_TYPE),
        key_length: of(set::KEY_LENGTH),
        data_type,
        data_length: if is_verdict { 0 } else { of(set::DATA_LENGTH) },
        size: size.unwrap_or(0),
    };
    Some((name, signature))
}

fn read_elements(reply: &Reply) -> impl Iterator<Item = (Key, Option<Data>)> {
    let list = reply.attributes(FIXED).find_kind(elements::LIST);
    list.into_iter().flat_map(Attribute::nested).filter_map(|it| read_element(&it.nested()))
}

fn read_element(attributes: &Reader<'_>) -> Option<(Key, Option<Data>)> {
    let value_of = |kind| {
        let value = attributes.find_kind(kind)?.nested().find_kind(data::VALUE)?;
        Some(Value::raw(value.payload))
    };
    let flags = number(attributes, element::FLAGS).unwrap_or(0);
    let key = Key {
        start: value_of(element::KEY)?,
        end: value_of(element::KEY_END),
        is_range_end: flags & element::INTERVAL_END != 0,
    };
    let data = attributes.find_kind(element::DATA).and_then(|it| read_data(&it.nested()));
    Some((key, data))
}

fn read_data(attributes: &Reader<'_>) -> Option<Data> {
    if let Some(value) = attributes.find_kind(data::VALUE) {
        return Some(Data::Value(Value::raw(value.payload)));
    }
    let nested = attributes.find_kind(data::VERDICT)?.nested();
    let code = number(&nested, verdict::CODE)?.cast_signed();
    read_verdict(code, string(&nested, verdict::CHAIN).as_deref()).map(Data::Verdict)
}
