//! Revisioned keys and values with watch and compaction: etcd's data model behind one trait.
//! Knows bytes, not objects.
//!
//! Promises: one global revision that grows by one per committed transaction and never repeats or goes
//! back, across restarts; an acknowledged write is durable (engine `embedded`); a watch delivers every
//! event of its range once, in order, whole transactions together, and can be resumed after the last
//! revision seen; a slow reader never holds up a writer. Not promised: history older than the last
//! compaction.

pub mod contract;
pub mod embedded;
mod error;
mod hub;
pub mod memory;
mod model;
mod state;

use futures_util::future::BoxFuture;

pub use error::Error;
pub use model::{
    Batch, Compare, Event, KeyRange, KeyValue, RangeRequest, RangeResponse, Revision, Txn,
    TxnOutcome, Write,
};

/// The receiving end of a watch. Ends with `Error::Compacted` when it fell out of the history, or with
/// `Error::Closed` when the store stopped.
pub trait Watch: Send {
    /// Waits for the next batch. Cancel-safe.
    fn next(&mut self) -> BoxFuture<'_, Result<Batch, Error>>;
    /// Every event of the watched range up to and including this revision has been delivered. Moves on
    /// without waking the reader when only other ranges are written.
    fn progress(&self) -> Revision;
}

/// One engine. Object-safe, so that the engine is chosen at start.
pub trait Store: Send + Sync + 'static {
    fn range(&self, request: RangeRequest) -> BoxFuture<'_, Result<RangeResponse, Error>>;
    fn txn(&self, txn: Txn) -> BoxFuture<'_, Result<TxnOutcome, Error>>;
    /// Events of `range` after `after` (exclusive); `None` starts at the current revision.
    fn watch(
        &self,
        range: KeyRange,
        after: Option<Revision>,
    ) -> BoxFuture<'_, Result<Box<dyn Watch>, Error>>;
    /// Forgets history up to and including `through`; the state at `through` stays readable.
    fn compact(&self, through: Revision) -> BoxFuture<'_, Result<(), Error>>;
    /// The latest committed revision.
    fn revision(&self) -> Revision;
    /// The oldest revision that can still be read.
    fn oldest(&self) -> Revision;
}
