//! nftables: a table as it should be, what the kernel holds of it, the changes between, and one
//! transaction that makes them.
//!
//! The model is typed as far as we use nftables, and pure; [`Nftables`] is the only part that asks
//! the kernel. A table is described whole ([`Table`]); [`changes`] compares it with
//! [`Nftables::observe`]; [`Nftables::apply`] makes the changes at once or not at all. Works on
//! kernels from 5.10 on.

mod change;
mod diff;
pub mod draft;
mod dump;
mod encode;
pub mod expression;
mod foreign;
mod numbers;
mod set;
mod table;
#[cfg(test)]
mod tests;

use rustix::io::Errno;

pub use change::Change;
pub use diff::{Observed, ObservedChain, ObservedSet, changes, element_changes};
pub use draft::{Draft, Field};
pub use encode::{creation, messages};
pub use expression::{Expression, Register};
pub use foreign::{Ending, ForeignChain, ForeignRule, ForeignTable};
pub use set::{Data, DataType, Element, Key, Set, Signature, Type, Value, Verdict};
pub use table::{
    Chain, ChainKind, Hook, HookPoint, Policy, Rule, Table, TableFamily, TableId, priority,
};

use super::{Error, Family, Socket};

/// The message that ends every transaction's notices.
pub(super) const NEW_GENERATION: u16 = numbers::SUBSYSTEM << 8 | numbers::message::NEW_GENERATION;

/// One table in the network namespace in which this was opened.
#[derive(Debug)]
pub struct Nftables {
    socket: Socket,
    id: TableId,
}

impl Nftables {
    pub fn open(id: TableId) -> Result<Self, Error> {
        Ok(Self { socket: Socket::open(Family::Netfilter)?, id })
    }

    /// What notices of our own changes carry.
    pub fn port(&self) -> u32 {
        self.socket.port()
    }

    /// All tables that are there, whoever made them.
    pub fn tables(&mut self) -> Result<Vec<TableId>, Error> {
        dump::tables(&mut self.socket)
    }

    /// `None` if there is no such table.
    pub fn observe(&mut self) -> Result<Option<Observed>, Error> {
        dump::observe(&mut self.socket, &self.id)
    }

    /// The same of another table.
    pub fn observe_other(&mut self, id: &TableId) -> Result<Option<Observed>, Error> {
        dump::observe(&mut self.socket, id)
    }

    /// All tables that are there, with who may change them.
    pub fn foreign_tables(&mut self) -> Result<Vec<ForeignTable>, Error> {
        foreign::tables(&mut self.socket)
    }

    /// The chains of all tables.
    pub fn foreign_chains(&mut self) -> Result<Vec<ForeignChain>, Error> {
        foreign::chains(&mut self.socket)
    }

    /// The rules of a chain of any table, in their order.
    pub fn foreign_rules(&mut self, id: &TableId, chain: &str) -> Result<Vec<ForeignRule>, Error> {
        foreign::rules(&mut self.socket, id, chain)
    }

    /// As [`Self::apply`], in another table.
    pub fn apply_to(&mut self, id: &TableId, changes: &[Change]) -> Result<(), Error> {
        self.socket.batch(&messages(id, changes), None)
    }

    /// All of the changes or none. The error says which change the kernel refused first.
    pub fn apply(&mut self, changes: &[Change]) -> Result<(), Error> {
        self.socket.batch(&messages(&self.id, changes), None)
    }

    /// Whether the table is other than it should be.
    pub fn differs(&mut self, desired: &Table) -> Result<bool, Error> {
        Ok(!changes(self.observe()?.as_ref(), desired).is_empty())
    }

    /// Makes the table as it should be, whatever it was before. Says whether anything had to
    /// change.
    pub fn converge(&mut self, desired: &Table) -> Result<bool, Error> {
        let changes = changes(self.observe()?.as_ref(), desired);
        self.apply(&changes)?;
        Ok(!changes.is_empty())
    }

    /// Removes the table with all that is in it, if it is there.
    pub fn purge(&mut self) -> Result<(), Error> {
        match self.apply(&[Change::DeleteTable]) {
            Err(err) if err.is(Errno::NOENT) => Ok(()),
            result => result,
        }
    }
}

pub(super) fn read_any(reply: &crate::netlink::Reply) {
    dump::read_any(reply);
}
