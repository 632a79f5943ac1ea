//! A table, its chains and rules, as they should be.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use super::expression::Expression;
use super::set::{Data, Key, Set};
use crate::netlink::Attributes;

/// The family and name of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableId {
    pub family: TableFamily,
    pub name: Cow<'static, str>,
}

impl TableId {
    pub fn new(family: TableFamily, name: impl Into<Cow<'static, str>>) -> Self {
        Self { family, name: name.into() }
    }
}

/// The traffic that a table sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TableFamily {
    Inet = 1,
    Ip = 2,
    Ip6 = 10,
}

impl fmt::Display for TableId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let family = match self.family {
            TableFamily::Inet => "inet",
            TableFamily::Ip => "ip",
            TableFamily::Ip6 => "ip6",
        };
        write!(f, "{family} {}", self.name)
    }
}

/// A whole table. Every chain and set that a rule or an element names is in it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Table {
    pub chains: BTreeMap<String, Chain>,
    pub sets: BTreeMap<&'static str, Set>,
    /// The elements of each set; none for dynamic ones.
    pub elements: BTreeMap<&'static str, BTreeMap<Key, Option<Data>>>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Chain {
    /// `None`: other chains jump to it.
    pub hook: Option<Hook>,
    pub rules: Vec<Rule>,
}

impl Chain {
    pub fn of(rules: Vec<Rule>) -> Self {
        Self { hook: None, rules }
    }

    pub fn at(hook: Hook, rules: Vec<Rule>) -> Self {
        Self { hook: Some(hook), rules }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hook {
    pub kind: ChainKind,
    pub point: HookPoint,
    pub priority: i32,
    pub policy: Policy,
}

impl Hook {
    pub const fn new(kind: ChainKind, point: HookPoint, priority: i32) -> Self {
        Self { kind, point, priority, policy: Policy::Accept }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChainKind {
    Filter,
    Nat,
    /// Packets that this host sends are routed again if the chain changed them.
    Route,
}

impl ChainKind {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Filter => "filter",
            Self::Nat => "nat",
            Self::Route => "route",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HookPoint {
    Prerouting = 0,
    Input = 1,
    Forward = 2,
    Output = 3,
    Postrouting = 4,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    Drop = 0,
    Accept = 1,
}

/// Where nftables and others expect certain work to be done (`NF_IP_PRI_*`).
pub mod priority {
    pub const DESTINATION_NAT: i32 = -100;
    pub const FILTER: i32 = 0;
    pub const SOURCE_NAT: i32 = 100;
}

/// Expressions from left to right; the first that fails ends the rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// Shown by `nft list`; at most a hundred bytes.
    pub comment: String,
    pub expressions: Vec<Expression>,
}

impl Rule {
    pub fn new(comment: impl Into<String>, expressions: Vec<Expression>) -> Self {
        Self { comment: comment.into(), expressions }
    }

    /// As the kernel reads them in a table of this family.
    pub(super) fn encode_expressions(&self, family: TableFamily) -> Attributes {
        Attributes::of(|it| {
            for expression in &self.expressions {
                it.nest(super::numbers::list::ELEMENT, |it| expression.encode(family, it));
            }
        })
    }

    /// The comment and a digest of the expressions: what is kept with the rule in the kernel, and
    /// by which it is known again. (The kernel gives expressions back in other words than it took
    /// them.) Whatever the table's family, which is the same for all rules of it.
    pub fn signature(&self) -> String {
        let comment: String = self.comment.chars().take(100).collect();
        format!("{comment} #{:016x}", digest(self.encode_expressions(TableFamily::Ip).as_bytes()))
    }
}

/// FNV-1a: the same in every version of this program, as the kernel keeps it across restarts.
fn digest(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |digest, byte| {
        (digest ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}
