//! Tables of others: their chains and rules, as far as it concerns us what becomes of packets there.
//!
//! What a rule asks of a packet is not understood, only whether it asks anything at all. What is
//! changed there is changed rule by rule ([`super::Change::InsertRule`], [`super::Change::DeleteRule`]).

use super::dump::{dump, number, read_comment, read_hook, string};
use super::encode::read_verdict;
use super::numbers::{
    SUBSYSTEM, chain, data, expression, immediate, list, matching, message, rule, table,
};
use super::set::Verdict;
use super::table::{Hook, TableFamily, TableId};
use crate::netlink::{Attribute, Error, Message, Reply, Socket};

/// Length of `struct nfgenmsg`.
const FIXED: usize = 4;

/// A table, whoever made it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForeignTable {
    pub id: TableId,
    /// Nobody but the program that made it can change it (`flags owner`).
    pub is_owned: bool,
}

/// A chain of any table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForeignChain {
    pub table: TableId,
    pub name: String,
    /// `None`: other chains jump to it, or it is at a place of which we know nothing.
    pub hook: Option<Hook>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ForeignRule {
    /// By which the kernel knows it.
    pub handle: u64,
    /// Empty without one.
    pub comment: String,
    /// It holds for every packet.
    pub is_for_all: bool,
    /// `None`: the next rule.
    pub ending: Option<Ending>,
}

/// What becomes of a packet that a rule holds for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ending {
    Verdict(Verdict),
    /// Its sender is told.
    Reject,
    /// Something that we do not know.
    Other,
}

pub(super) fn tables(socket: &mut Socket) -> Result<Vec<ForeignTable>, Error> {
    let any = all("list tables", message::GET_TABLE);
    Ok(socket.dump(&any)?.iter().filter_map(read_table).collect())
}

pub(super) fn chains(socket: &mut Socket) -> Result<Vec<ForeignChain>, Error> {
    let any = all("list chains", message::GET_CHAIN);
    Ok(socket.dump(&any)?.iter().filter_map(read_chain).collect())
}

/// None, if there is no such chain.
pub(super) fn rules(
    socket: &mut Socket,
    id: &TableId,
    name: &str,
) -> Result<Vec<ForeignRule>, Error> {
    let replies = dump(socket, id, message::GET_RULE, |it| {
        it.string(rule::CHAIN, name);
    })?;
    let is_of = |it: &&Reply| string(&it.attributes(FIXED), rule::CHAIN).as_deref() == Some(name);
    Ok(replies.iter().filter(is_of).filter_map(read_rule).collect())
}

fn all(doing: &'static str, kind: u16) -> Message {
    Message::new(doing, SUBSYSTEM << 8 | kind, 0, &[0; FIXED])
}

fn read_id(reply: &Reply, name: u16) -> Option<TableId> {
    let known = [TableFamily::Inet, TableFamily::Ip, TableFamily::Ip6];
    let family = known.into_iter().find(|it| Some(&(*it as u8)) == reply.payload.first())?;
    Some(TableId::new(family, string(&reply.attributes(FIXED), name)?))
}

fn read_table(reply: &Reply) -> Option<ForeignTable> {
    let flags = number(&reply.attributes(FIXED), table::FLAGS).unwrap_or(0);
    Some(ForeignTable { id: read_id(reply, table::NAME)?, is_owned: flags & table::OWNER != 0 })
}

fn read_chain(reply: &Reply) -> Option<ForeignChain> {
    let attributes = reply.attributes(FIXED);
    let hook = attributes.find_kind(chain::HOOK).and_then(|it| read_hook(&attributes, it));
    Some(ForeignChain {
        table: read_id(reply, chain::TABLE)?,
        name: string(&attributes, chain::NAME)?,
        hook,
    })
}

fn read_rule(reply: &Reply) -> Option<ForeignRule> {
    let attributes = reply.attributes(FIXED);
    let written = attributes.find_kind(rule::USER_DATA).and_then(|it| read_comment(it.payload));
    let mut found = ForeignRule {
        handle: attributes.find_kind(rule::HANDLE).and_then(Attribute::u64_be)?,
        comment: written.unwrap_or_default(),
        is_for_all: true,
        ending: None,
    };
    let expressions =
        attributes.find_kind(rule::EXPRESSIONS).into_iter().flat_map(Attribute::nested);
    for element in expressions.filter(|it| it.kind == list::ELEMENT) {
        let nested = element.nested();
        let name = nested.find_kind(expression::NAME).and_then(Attribute::string);
        let details = nested.find_kind(expression::DATA);
        read_expression(name.unwrap_or_default(), details, &mut found);
    }
    Some(found)
}

fn read_expression(name: &str, details: Option<Attribute<'_>>, rule: &mut ForeignRule) {
    let text = |kind| details?.nested().find_kind(kind)?.string();
    match name {
        "counter" | "log" => {}
        "immediate" => {
            if let Some(ending) = details.and_then(read_immediate) {
                rule.ending = Some(ending);
            }
        }
        "reject" => rule.ending = Some(Ending::Reject),
        // Those of iptables.
        "target" => {
            rule.ending = match text(matching::NAME) {
                Some("REJECT") => Some(Ending::Reject),
                Some("LOG" | "NFLOG" | "MARK" | "CONNMARK") => rule.ending.take(),
                _ => Some(Ending::Other),
            }
        }
        "match" if text(matching::NAME) == Some("comment") => {
            if let Some(words) = text(matching::DETAILS) {
                words.clone_into(&mut rule.comment);
            }
        }
        "nat" | "masq" | "redir" | "tproxy" | "queue" | "dup" | "fwd" | "synproxy" => {
            rule.ending = Some(Ending::Other);
        }
        _ => rule.is_for_all = false,
    }
}

/// `None`: a value that is loaded.
fn read_immediate(details: Attribute<'_>) -> Option<Ending> {
    let nested = details.nested().find_kind(immediate::DATA)?.nested();
    let nested = nested.find_kind(data::VERDICT)?.nested();
    let code = number(&nested, super::numbers::verdict::CODE)?.cast_signed();
    let verdict = read_verdict(code, string(&nested, super::numbers::verdict::CHAIN).as_deref());
    Some(verdict.map_or(Ending::Other, Ending::Verdict))
}

/// Whatever kind of message it is.
pub(super) fn read_any(reply: &Reply) {
    let _ = (read_table(reply), read_chain(reply), read_rule(reply));
}
