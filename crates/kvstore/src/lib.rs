//! Revisioned keys and values with watch and compaction: etcd's data model behind one trait.
//! Knows bytes, not objects.
//!
//! Promises: one global revision that grows by one per committed transaction and never repeats or
//! goes back, across restarts; an acknowledged write is durable; a watch delivers every event of
//! its range once, in order, whole transactions together, and can be resumed after the last
//! revision seen; a slow reader never holds up a writer. Not promised: history older than the last
//! compaction, and after a crash of the machine the last relaxed writes (their revisions stay
//! unused).

pub mod contract;
mod deadlines;
pub mod embedded;
mod error;
#[cfg(test)]
mod explored;
mod hub;
#[doc(hidden)]
pub mod linearizability;
pub mod memory;
mod model;
#[doc(hidden)]
pub mod reference;
mod state;
mod sync;
#[doc(hidden)]
pub mod torture;
#[doc(hidden)]
pub mod validators;

use std::time::Duration;

use futures_util::future::{BoxFuture, join_all};

pub use error::Error;
pub use model::{
    Batch, Compare, Durability, Event, EventFilter, KeyRange, KeyValue, LeaseId, LeaseStatus, Op,
    OpResult, Previous, Put, PutLease, PutValue, RangeRequest, RangeResponse, Relation, Revision,
    Status, Target, Told, Txn, TxnResponse, Want, WatchId, WatchRequest,
};

/// What one transaction may have, as in etcd: operations of a branch and compares, each.
pub const TXN_OPS_MAX: usize = 128;
/// Key and value of one put together. Above etcd's default request size, since objects grow by
/// defaults.
pub const PUT_BYTES_MAX: usize = 8 << 20;

/// The receiving end of a watch. Ends with `Error::Compacted` when it fell out of the history, or
/// with `Error::Closed` when the store stopped.
pub trait Watch: Send {
    /// Waits for the next batch. Cancel-safe.
    fn next(&mut self) -> BoxFuture<'_, Result<Batch, Error>>;
    /// Every event of the watched range up to and including this revision has been delivered. Moves
    /// on without waking the reader when only other ranges are written. Never ahead of what was
    /// delivered.
    fn progress(&self) -> Revision;
    /// Asks for a batch without events that tells how far the store is. `next` returns it when
    /// everything committed before this call has been delivered; for a watch from a future revision
    /// not before the store is there.
    fn request_progress(&mut self);
}

/// Many watches with one reader, which gives them their names. Each delivers what it would alone;
/// one that has much to read holds up no other, and an idle one takes little more than its range.
pub trait Watches: Send {
    /// Begins a watch. The one that had the name before ends.
    fn add(&mut self, id: WatchId, request: WatchRequest) -> BoxFuture<'_, Result<(), Error>>;
    /// Nothing is told of the watch any more.
    fn remove(&mut self, id: WatchId);
    /// Waits for what any of them has to tell; forever while there are none. Fails with
    /// `Error::Closed` when the store stopped. Cancel-safe.
    fn next(&mut self) -> BoxFuture<'_, Result<Told, Error>>;
    /// How far a watch is, as `Watch::progress`. `None`: there is no such watch.
    fn progress(&self, id: WatchId) -> Option<Revision>;
    /// Asks for one `Told::Progress`. `next` returns it when everything committed before this call
    /// has been delivered to all, and the store has come to where the last of them begins. Asking
    /// again before it came takes it back and asks anew.
    fn request_progress(&mut self);
}

/// One engine. Object-safe, so that the engine is chosen at start.
pub trait Store: Send + Sync + 'static {
    fn range(&self, request: RangeRequest) -> BoxFuture<'_, Result<RangeResponse, Error>>;
    fn txn(&self, txn: Txn) -> BoxFuture<'_, Result<TxnResponse, Error>>;
    /// Transactions that are asked for together, each on its own. Spares whoever has several at
    /// hand the work of asking for each.
    fn txns(&self, txns: Vec<Txn>) -> BoxFuture<'_, Vec<Result<TxnResponse, Error>>> {
        Box::pin(join_all(txns.into_iter().map(|it| self.txn(it))))
    }
    /// Carries it out before it returns, if the store finds that quicker than another thread; else
    /// it is given back, to be asked for with `txn`. For callers that have nothing else to do until
    /// then: the thread waits for the disk.
    fn txn_here(&self, txn: Txn) -> Result<Result<TxnResponse, Error>, Txn> {
        Err(txn)
    }
    fn watch(&self, request: WatchRequest) -> BoxFuture<'_, Result<Box<dyn Watch>, Error>>;
    fn watches(&self) -> Box<dyn Watches>;
    /// Forgets history up to and including `through`; the state at `through` stays readable.
    fn compact(&self, through: Revision) -> BoxFuture<'_, Result<(), Error>>;
    /// The latest committed revision: whoever asks after a write was acknowledged, here or by
    /// another server over the same data, is told that write's revision or a later one.
    fn current(&self) -> BoxFuture<'_, Result<Revision, Error>>;
    /// The latest revision that this process knows of.
    fn revision(&self) -> Revision;
    /// The oldest revision that can still be read, as far as this process knows.
    fn oldest(&self) -> Revision;
    fn status(&self) -> BoxFuture<'_, Result<Status, Error>>;

    /// A lease that ends `ttl` after its last keep-alive. `None` lets the store choose an id.
    fn lease_grant(
        &self,
        id: Option<LeaseId>,
        ttl: Duration,
    ) -> BoxFuture<'_, Result<LeaseId, Error>>;
    /// Ends the lease and deletes its keys, in one transaction.
    fn lease_revoke(&self, id: LeaseId) -> BoxFuture<'_, Result<Revision, Error>>;
    /// Returns what the lease has left now: its whole time.
    fn lease_keep_alive(&self, id: LeaseId) -> BoxFuture<'_, Result<Duration, Error>>;
    fn lease(&self, id: LeaseId) -> BoxFuture<'_, Result<LeaseStatus, Error>>;
    /// Sorted.
    fn leases(&self) -> BoxFuture<'_, Result<Vec<LeaseId>, Error>>;
}

/// For whoever has nothing else to do: in this thread if the store likes that, else in its own.
pub(crate) async fn txn_anywhere(store: &dyn Store, txn: Txn) -> Result<TxnResponse, Error> {
    match store.txn_here(txn) {
        Ok(done) => done,
        Err(txn) => store.txn(txn).await,
    }
}
