//! The store without a disk, for tests and simulation: commits at once, starts no task or thread, and
//! answers in the order it was asked. History is kept until it is compacted.

use std::sync::{Arc, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::Duration;

use futures_util::future::{BoxFuture, ready};

use crate::hub::{Hub, Retention};
use crate::state::{Commit, Draft, State, Undo, note_previous};
use crate::{
    Error, LeaseId, LeaseStatus, RangeRequest, RangeResponse, Revision, Status, Store, Txn,
    TxnResponse, Watch, WatchRequest,
};

pub struct Memory {
    /// Locked before the hub.
    state: RwLock<State>,
    hub: Arc<Hub>,
}

impl Default for Memory {
    fn default() -> Self {
        Self::new()
    }
}

impl Memory {
    pub fn new() -> Self {
        let everything = Retention { commits: usize::MAX, bytes: usize::MAX };
        Self {
            state: RwLock::new(State::empty()),
            hub: Arc::new(Hub::new(Revision::EMPTY, Revision::EMPTY, everything)),
        }
    }

    /// Ends every watch with `Error::Closed`.
    pub fn close(&self) {
        self.hub.close();
    }

    fn state(&self) -> RwLockReadGuard<'_, State> {
        self.state.read().expect("no code panics while it holds the state")
    }

    fn state_mut(&self) -> RwLockWriteGuard<'_, State> {
        self.state.write().expect("no code panics while it holds the state")
    }

    fn read(&self, request: &RangeRequest) -> Result<RangeResponse, Error> {
        let state = self.state();
        let Some(at) = request.at else {
            return Ok(state.range(request));
        };
        self.read_at(&state, request, at)
    }

    fn read_at(
        &self,
        state: &State,
        request: &RangeRequest,
        at: Revision,
    ) -> Result<RangeResponse, Error> {
        self.hub.check_readable(at)?;
        let since = self.hub.ring_after(at).expect("history after the oldest revision is all here");
        let mut undo = Undo::new();
        since.iter().for_each(|it| note_previous(&mut undo, &request.range, it));
        Ok(state.range_at(request, at, &undo))
    }

    fn commit(&self, txn: &Txn) -> Result<TxnResponse, Error> {
        let mut state = self.state_mut();
        let mut past = |request: &RangeRequest, at| self.read_at(&state, request, at);
        let (response, commit) = Draft::new(&state).txn(txn, &mut past)?;
        if let Some(commit) = commit {
            self.publish(&mut state, commit);
        }
        Ok(response)
    }

    fn publish(&self, state: &mut State, commit: Commit) {
        state.apply(&commit);
        if !commit.events.is_empty() {
            self.hub.publish(&[Arc::new(commit)]);
        }
    }
}

impl Store for Memory {
    fn range(&self, request: RangeRequest) -> BoxFuture<'_, Result<RangeResponse, Error>> {
        Box::pin(async move { self.read(&request) })
    }

    fn txn(&self, txn: Txn) -> BoxFuture<'_, Result<TxnResponse, Error>> {
        Box::pin(async move { self.commit(&txn) })
    }

    fn watch(&self, request: WatchRequest) -> BoxFuture<'_, Result<Box<dyn Watch>, Error>> {
        Box::pin(ready(self.hub.watch(request, None)))
    }

    fn compact(&self, through: Revision) -> BoxFuture<'_, Result<(), Error>> {
        Box::pin(async move {
            self.hub.check_readable(through)?;
            self.hub.compact(through);
            Ok(())
        })
    }

    fn current(&self) -> BoxFuture<'_, Result<Revision, Error>> {
        Box::pin(ready(Ok(self.revision())))
    }

    fn revision(&self) -> Revision {
        self.state().revision()
    }

    fn oldest(&self) -> Revision {
        self.hub.oldest()
    }

    fn status(&self) -> BoxFuture<'_, Result<Status, Error>> {
        let state = self.state();
        Box::pin(ready(Ok(Status {
            revision: state.revision(),
            oldest: self.hub.oldest(),
            n_keys: state.n_keys() as u64,
            bytes: 0,
            bytes_current: 0,
            hash: None,
            read_only: None,
        })))
    }

    fn lease_grant(
        &self,
        id: Option<LeaseId>,
        ttl: Duration,
    ) -> BoxFuture<'_, Result<LeaseId, Error>> {
        let mut state = self.state_mut();
        let highest = state.leases().map(|(id, _)| id.0.get()).max().unwrap_or(0);
        let id = id.or_else(|| LeaseId::new(highest.wrapping_add(1).max(1))).expect("not zero");
        let granted = Draft::new(&state).grant(id, ttl);
        Box::pin(ready(granted.map(|commit| {
            self.publish(&mut state, commit);
            id
        })))
    }

    fn lease_revoke(&self, id: LeaseId) -> BoxFuture<'_, Result<Revision, Error>> {
        let mut state = self.state_mut();
        let revoked = Draft::new(&state).revoke(id);
        Box::pin(ready(revoked.map(|commit| {
            let revision = commit.revision;
            self.publish(&mut state, commit);
            revision
        })))
    }

    fn lease_keep_alive(&self, id: LeaseId) -> BoxFuture<'_, Result<Duration, Error>> {
        let ttl = self.state().lease(id).map(|it| it.ttl);
        Box::pin(ready(ttl.ok_or(Error::LeaseNotFound { id })))
    }

    fn lease(&self, id: LeaseId) -> BoxFuture<'_, Result<LeaseStatus, Error>> {
        let state = self.state();
        let status = state.lease(id).map(|it| LeaseStatus {
            id,
            granted: it.ttl,
            remaining: it.ttl,
            keys: it.keys.iter().cloned().collect(),
        });
        Box::pin(ready(status.ok_or(Error::LeaseNotFound { id })))
    }

    fn leases(&self) -> BoxFuture<'_, Result<Vec<LeaseId>, Error>> {
        Box::pin(ready(Ok(self.state().leases().map(|(id, _)| id).collect())))
    }
}
