//! Changes of one table. All changes of one transaction are made at once or not at all.

use super::set::{Element, Key, Set};
use super::table::{Chain, Rule};

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// Does nothing if it is there.
    AddTable,
    DeleteTable,
    AddSet(&'static str, Set),
    DeleteSet(String),
    /// The chain alone; its rules come with `AddRule`.
    AddChain(String, Chain),
    DeleteChain(String),
    /// At the end of the chain.
    AddRule {
        chain: String,
        rule: Rule,
    },
    /// Before the rule with this handle.
    InsertRule {
        chain: String,
        before: u64,
        rule: Rule,
    },
    /// The one with this handle.
    DeleteRule {
        chain: String,
        handle: u64,
    },
    /// Removes all rules of the chain.
    FlushChain(String),
    AddElements {
        set: &'static str,
        elements: Vec<Element>,
    },
    DeleteElements {
        set: &'static str,
        keys: Vec<Key>,
    },
}
