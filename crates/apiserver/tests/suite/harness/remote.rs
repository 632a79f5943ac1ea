//! A store as a server sees it that is not its only user: another's writes come in, values are not
//! stamped, the connection breaks, the disk behind it is full. Over the in-memory one.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::future::BoxFuture;
use kvstore::memory::Memory;
use kvstore::{
    Batch, Durability, Error, LeaseId, LeaseStatus, Op, Put, PutValue, RangeRequest, RangeResponse,
    Revision, Status, Store, Txn, TxnResponse, Watch, WatchRequest, Watches,
};
use tokio::sync::watch;

pub(crate) struct Remote {
    inner: Arc<Memory>,
    /// What every transaction gets instead of an answer.
    refusal: Mutex<Option<Error>>,
    /// How many transactions still succeed.
    left: AtomicUsize,
    /// How often the watches broke, and with what the last time.
    breaks: watch::Sender<(usize, Option<Error>)>,
    /// Keys of each transaction, and how durable it was asked to be.
    seen: Mutex<Vec<(Vec<String>, Durability)>>,
}

struct RemoteWatch {
    inner: Box<dyn Watch>,
    breaks: watch::Receiver<(usize, Option<Error>)>,
}

impl Remote {
    pub(crate) fn new(inner: Arc<Memory>) -> Arc<Self> {
        Arc::new(Self {
            inner,
            refusal: Mutex::default(),
            left: AtomicUsize::new(usize::MAX),
            breaks: watch::Sender::new((0, None)),
            seen: Mutex::default(),
        })
    }

    pub(crate) fn refuse(&self, error: Option<Error>) {
        *self.refusal.lock().unwrap_or_else(PoisonError::into_inner) = error;
    }

    /// After this many more transactions the store cannot be reached.
    pub(crate) fn fail_after(&self, n_transactions: usize) {
        self.left.store(n_transactions, Ordering::Relaxed);
    }

    pub(crate) fn break_watches(&self, error: Error) {
        self.breaks.send_modify(|it| *it = (it.0 + 1, Some(error)));
    }

    pub(crate) fn seen(&self) -> Vec<(Vec<String>, Durability)> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn admit(&self, txn: &Txn) -> Result<(), Error> {
        if let Some(error) = self.refusal.lock().unwrap_or_else(PoisonError::into_inner).clone() {
            return Err(error);
        }
        if self
            .left
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |it| it.checked_sub(1))
            .is_err()
        {
            return Err(Error::Unavailable { why: "it was cut off".to_owned() });
        }
        let keys = txn.then.iter().filter_map(|it| match it {
            Op::Put(put) => Some(String::from_utf8_lossy(&put.key).into_owned()),
            Op::Delete(range) => Some(String::from_utf8_lossy(&range.start).into_owned()),
            _ => None,
        });
        let seen = (keys.collect(), txn.durability);
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).push(seen);
        Ok(())
    }
}

/// As an engine that cannot know the revision beforehand.
fn unstamped(op: Op) -> Op {
    match op {
        Op::Put(Put { key, value: PutValue::Stamped { bytes, .. }, lease }) => {
            Op::Put(Put { key, value: PutValue::Bytes(bytes), lease })
        }
        other => other,
    }
}

impl Watch for RemoteWatch {
    fn next(&mut self) -> BoxFuture<'_, Result<Batch, Error>> {
        Box::pin(async {
            tokio::select! {
                biased;
                Ok(()) = self.breaks.changed() => {
                    let (_, error) = self.breaks.borrow_and_update().clone();
                    Err(error.unwrap_or(Error::Closed))
                }
                batch = self.inner.next() => batch,
            }
        })
    }

    fn progress(&self) -> Revision {
        self.inner.progress()
    }

    fn request_progress(&mut self) {
        self.inner.request_progress();
    }
}

impl Store for Remote {
    fn range(&self, request: RangeRequest) -> BoxFuture<'_, Result<RangeResponse, Error>> {
        self.inner.range(request)
    }

    fn txn(&self, txn: Txn) -> BoxFuture<'_, Result<TxnResponse, Error>> {
        Box::pin(async move {
            self.admit(&txn)?;
            let then = txn.then.into_iter().map(unstamped).collect();
            self.inner.txn(Txn { then, ..txn }).await
        })
    }

    fn watch(&self, request: WatchRequest) -> BoxFuture<'_, Result<Box<dyn Watch>, Error>> {
        Box::pin(async move {
            let inner = self.inner.watch(request).await?;
            let mut breaks = self.breaks.subscribe();
            breaks.mark_unchanged();
            Ok(Box::new(RemoteWatch { inner, breaks }) as Box<dyn Watch>)
        })
    }

    fn watches(&self) -> Box<dyn Watches> {
        self.inner.watches()
    }

    fn compact(&self, through: Revision) -> BoxFuture<'_, Result<(), Error>> {
        self.inner.compact(through)
    }

    fn current(&self) -> BoxFuture<'_, Result<Revision, Error>> {
        self.inner.current()
    }

    fn revision(&self) -> Revision {
        self.inner.revision()
    }

    fn oldest(&self) -> Revision {
        self.inner.oldest()
    }

    fn status(&self) -> BoxFuture<'_, Result<Status, Error>> {
        Box::pin(async {
            let refusal = self.refusal.lock().unwrap_or_else(PoisonError::into_inner).clone();
            let read_only = match refusal {
                Some(Error::ReadOnly { why }) => Some(why),
                _ => None,
            };
            Ok(Status { read_only, ..self.inner.status().await? })
        })
    }

    fn lease_grant(
        &self,
        id: Option<LeaseId>,
        ttl: Duration,
    ) -> BoxFuture<'_, Result<LeaseId, Error>> {
        self.inner.lease_grant(id, ttl)
    }

    fn lease_revoke(&self, id: LeaseId) -> BoxFuture<'_, Result<Revision, Error>> {
        self.inner.lease_revoke(id)
    }

    fn lease_keep_alive(&self, id: LeaseId) -> BoxFuture<'_, Result<Duration, Error>> {
        self.inner.lease_keep_alive(id)
    }

    fn lease(&self, id: LeaseId) -> BoxFuture<'_, Result<LeaseStatus, Error>> {
        self.inner.lease(id)
    }

    fn leases(&self) -> BoxFuture<'_, Result<Vec<LeaseId>, Error>> {
        self.inner.leases()
    }
}
