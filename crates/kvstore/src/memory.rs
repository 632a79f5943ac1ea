//! The store without a disk, for tests and simulation: commits at once, starts no task or thread,
//! and answers in the order it was asked. History is kept until it is compacted.
//!
//! A lease ends when somebody looks after its time has come; a watch that waits looks at the right
//! time.

use std::sync::{Arc, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::Duration;

use futures_util::future::{BoxFuture, pending, ready};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

use crate::deadlines::Deadlines;
use crate::hub::{Hub, Retention};
use crate::state::{
    Commit, Drafted, Entry, Merged, Page, Refused, State, Undo, merge, note_previous,
};
use crate::{
    Batch, Error, KeyRange, LeaseId, LeaseStatus, RangeRequest, RangeResponse, Revision, Status,
    Store, Told, Txn, TxnResponse, Watch, WatchId, WatchRequest, Watches,
};

const EVERY_VALUE: &str = "the store without a disk has every value in memory";

#[derive(Default)]
pub struct Memory {
    shared: Arc<Shared>,
}

struct Shared {
    /// Locked before the hub.
    present: RwLock<Present>,
    hub: Arc<Hub>,
    /// The next end of a lease has come nearer.
    nearer: Notify,
}

struct Present {
    state: State,
    deadlines: Deadlines,
    /// The last id that was chosen for a lease.
    lease_last: i64,
}

impl Default for Shared {
    fn default() -> Self {
        let everything = Retention { commits: usize::MAX, bytes: usize::MAX };
        let present = Present {
            state: State::empty(usize::MAX),
            deadlines: Deadlines::default(),
            lease_last: 0,
        };
        Self {
            present: RwLock::new(present),
            hub: Arc::new(Hub::new(Revision::EMPTY, Revision::EMPTY, everything)),
            nearer: Notify::new(),
        }
    }
}

impl Memory {
    pub fn new() -> Self {
        Self::default()
    }

    /// Ends every watch with `Error::Closed`.
    pub fn close(&self) {
        self.shared.hub.close();
    }
}

impl Shared {
    /// The present, without leases whose time has come.
    fn present(&self) -> RwLockReadGuard<'_, Present> {
        let read = || self.present.read().expect("no code panics while it holds the state");
        let present = read();
        if !present.has_expired() {
            return present;
        }
        drop(present);
        drop(self.present_mut());
        read()
    }

    fn present_mut(&self) -> RwLockWriteGuard<'_, Present> {
        let mut present = self.present.write().expect("no code panics while it holds the state");
        if present.has_expired() {
            for id in present.deadlines.expired(Instant::now()) {
                let revoked = Drafted::new(&present.state).on(&present.state).revoke(id);
                present.deadlines.revoke(id);
                // A lease with a deadline exists, so this is always right.
                revoked.into_iter().for_each(|commit| self.publish(&mut present.state, commit));
            }
        }
        present
    }

    fn publish(&self, state: &mut State, commit: Commit) {
        let commit = Arc::new(commit);
        state.apply(&commit, |_, _| {});
        self.hub.publish(&[commit]);
    }

    fn range(&self, request: &RangeRequest) -> Result<RangeResponse, Error> {
        let present = self.present();
        match request.at {
            None => Ok(range(&present.state, request, present.state.revision(), &Undo::new())),
            Some(at) => self.range_at(&present.state, request, at),
        }
    }

    fn range_at(
        &self,
        state: &State,
        request: &RangeRequest,
        at: Revision,
    ) -> Result<RangeResponse, Error> {
        self.hub.check_readable(at)?;
        let since = self.hub.ring_after(at).expect("history after the oldest revision is all here");
        let mut undo = Undo::new();
        since.iter().for_each(|it| note_previous(&mut undo, &request.range, it));
        Ok(range(state, request, at, &undo))
    }

    fn txn(&self, txn: &Txn) -> Result<TxnResponse, Error> {
        let mut present = self.present_mut();
        let state = &mut present.state;
        let mut past = |request: &RangeRequest, at| self.range_at(state, request, at);
        let decided = Drafted::new(state).on(state).txn(txn, &mut past);
        let (response, commit) = decided.map_err(|it| match it {
            Refused::For(error) => error,
            Refused::Unread(_) => unreachable!("{EVERY_VALUE}"),
        })?;
        if let Some(commit) = commit {
            self.publish(state, commit);
        }
        Ok(response)
    }

    fn compact(&self, through: Revision) -> Result<(), Error> {
        let mut present = self.present_mut();
        self.hub.check_readable(through)?;
        self.hub.compact(through);
        present.state.forget(through);
        Ok(())
    }

    fn status(&self) -> Status {
        let present = self.present();
        let size = |(key, it): (&[u8], &Entry)| key.len() as u64 + u64::from(it.value_bytes);
        let bytes = present.state.entries(&KeyRange::prefix(b"")).map(size).sum();
        Status {
            revision: present.state.revision(),
            oldest: self.hub.oldest(),
            n_keys: present.state.n_keys() as u64,
            bytes,
            bytes_current: bytes,
            hash: None,
            read_only: None,
        }
    }

    fn grant(&self, id: Option<LeaseId>, ttl: Duration) -> Result<LeaseId, Error> {
        let mut present = self.present_mut();
        let id = id.unwrap_or_else(|| present.free_lease());
        let commit = Drafted::new(&present.state).on(&present.state).grant(id, ttl)?;
        self.publish(&mut present.state, commit);
        let next = present.deadlines.next();
        present.deadlines.grant(id, ttl, Instant::now());
        if present.deadlines.next() != next {
            self.nearer.notify_waiters();
        }
        Ok(id)
    }

    fn revoke(&self, id: LeaseId) -> Result<Revision, Error> {
        let mut present = self.present_mut();
        let commit = Drafted::new(&present.state).on(&present.state).revoke(id)?;
        present.deadlines.revoke(id);
        let revision = commit.revision;
        self.publish(&mut present.state, commit);
        Ok(revision)
    }

    fn lease(&self, id: LeaseId) -> Result<LeaseStatus, Error> {
        let present = self.present();
        let not_found = Error::LeaseNotFound { id };
        let lease = present.state.lease(id).ok_or_else(|| not_found.clone())?;
        let remaining = present.deadlines.remaining(id, Instant::now()).ok_or(not_found)?;
        let keys = lease.keys.iter().cloned().collect();
        Ok(LeaseStatus { id, granted: lease.ttl, remaining, keys })
    }
}

/// The range as it was at `at`, given what changed since.
fn range(state: &State, request: &RangeRequest, at: Revision, undo: &Undo) -> RangeResponse {
    let mut page = Page::new(request);
    let changed = undo.iter().filter(|(key, _)| request.range.contains(key));
    merge(state.entries(&request.range), changed, |key, found| match found {
        Merged::Entry(entry) => page.take(key, entry, || {
            let found = state.value(key, entry.mod_revision);
            found.expect(EVERY_VALUE).clone()
        }),
        Merged::Other(Some(before)) => page.take(key, &Entry::of(before), || before.clone()),
        Merged::Other(None) => {}
    });
    page.response(at)
}

impl Present {
    fn has_expired(&self) -> bool {
        self.deadlines.next().is_some_and(|it| it <= Instant::now())
    }

    fn free_lease(&mut self) -> LeaseId {
        loop {
            self.lease_last = self.lease_last.checked_add(1).unwrap_or(1);
            let id = LeaseId::new(self.lease_last).expect("counted from one up");
            if self.state.lease(id).is_none() {
                return id;
            }
        }
    }
}

impl Shared {
    /// Waits for what a watch tells, and sees leases end meanwhile.
    async fn attend<T>(&self, told: BoxFuture<'_, T>) -> T {
        let mut told = told;
        loop {
            let nearer = self.nearer.notified();
            tokio::pin!(nearer);
            nearer.as_mut().enable();
            let ends = self.present().deadlines.next();
            let ended = async {
                match ends {
                    Some(at) => sleep_until(at).await,
                    None => pending().await,
                }
            };
            tokio::select! {
                biased;
                told = &mut told => return told,
                () = nearer => {}
                () = ended => {}
            }
        }
    }
}

/// One watch of the hub or many, attended.
struct Attended<W: ?Sized> {
    shared: Arc<Shared>,
    inner: Box<W>,
}

impl Watch for Attended<dyn Watch> {
    fn next(&mut self) -> BoxFuture<'_, Result<Batch, Error>> {
        Box::pin(self.shared.attend(self.inner.next()))
    }

    fn progress(&self) -> Revision {
        self.inner.progress()
    }

    fn request_progress(&mut self) {
        self.inner.request_progress();
    }
}

impl Watches for Attended<dyn Watches> {
    fn add(&mut self, id: WatchId, request: WatchRequest) -> BoxFuture<'_, Result<(), Error>> {
        // A lease whose time has come ends before the watch begins.
        drop(self.shared.present());
        self.inner.add(id, request)
    }

    fn remove(&mut self, id: WatchId) {
        self.inner.remove(id);
    }

    fn next(&mut self) -> BoxFuture<'_, Result<Told, Error>> {
        Box::pin(self.shared.attend(self.inner.next()))
    }

    fn progress(&self, id: WatchId) -> Option<Revision> {
        self.inner.progress(id)
    }

    fn request_progress(&mut self) {
        self.inner.request_progress();
    }
}

impl Store for Memory {
    fn range(&self, request: RangeRequest) -> BoxFuture<'_, Result<RangeResponse, Error>> {
        Box::pin(async move { self.shared.range(&request) })
    }

    fn txn(&self, txn: Txn) -> BoxFuture<'_, Result<TxnResponse, Error>> {
        Box::pin(async move { self.shared.txn(&txn) })
    }

    fn watch(&self, request: WatchRequest) -> BoxFuture<'_, Result<Box<dyn Watch>, Error>> {
        Box::pin(async move {
            let present = self.shared.present();
            let inner = self.shared.hub.watch(request, None)?;
            drop(present);
            Ok(Box::new(Attended { shared: self.shared.clone(), inner }) as Box<dyn Watch>)
        })
    }

    fn watches(&self) -> Box<dyn Watches> {
        let inner = self.shared.hub.watches(None);
        Box::new(Attended { shared: self.shared.clone(), inner })
    }

    fn compact(&self, through: Revision) -> BoxFuture<'_, Result<(), Error>> {
        Box::pin(async move { self.shared.compact(through) })
    }

    fn current(&self) -> BoxFuture<'_, Result<Revision, Error>> {
        Box::pin(async move { Ok(self.revision()) })
    }

    fn revision(&self) -> Revision {
        self.shared.present().state.revision()
    }

    fn oldest(&self) -> Revision {
        self.shared.hub.oldest()
    }

    fn status(&self) -> BoxFuture<'_, Result<Status, Error>> {
        Box::pin(async move { Ok(self.shared.status()) })
    }

    fn lease_grant(
        &self,
        id: Option<LeaseId>,
        ttl: Duration,
    ) -> BoxFuture<'_, Result<LeaseId, Error>> {
        Box::pin(async move { self.shared.grant(id, ttl) })
    }

    fn lease_revoke(&self, id: LeaseId) -> BoxFuture<'_, Result<Revision, Error>> {
        Box::pin(async move { self.shared.revoke(id) })
    }

    fn lease_keep_alive(&self, id: LeaseId) -> BoxFuture<'_, Result<Duration, Error>> {
        Box::pin(async move {
            let kept = self.shared.present_mut().deadlines.keep_alive(id, Instant::now());
            kept.ok_or(Error::LeaseNotFound { id })
        })
    }

    fn lease(&self, id: LeaseId) -> BoxFuture<'_, Result<LeaseStatus, Error>> {
        Box::pin(async move { self.shared.lease(id) })
    }

    fn leases(&self) -> BoxFuture<'_, Result<Vec<LeaseId>, Error>> {
        let leases = self.shared.present().state.leases().map(|(id, _)| id).collect();
        Box::pin(ready(Ok(leases)))
    }
}
