//! The store without a disk, for tests and simulation: commits at once, starts no task or thread, and
//! answers in the order it was asked. History is kept until it is compacted.

use std::sync::{Arc, RwLock, RwLockReadGuard, RwLockWriteGuard};

use futures_util::future::{BoxFuture, ready};

use crate::hub::{Hub, Retention};
use crate::state::{Decision, State, Undo, decide, note_previous};
use crate::{
    Error, KeyRange, RangeRequest, RangeResponse, Revision, Store, Txn, TxnOutcome, Watch,
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
        self.hub.check_readable(at)?;
        let since = self.hub.ring_after(at).expect("history after the oldest revision is all here");
        let mut undo = Undo::new();
        since.iter().for_each(|it| note_previous(&mut undo, &request.range, it));
        Ok(state.range_at(request, at, &undo))
    }

    fn commit(&self, txn: &Txn) -> TxnOutcome {
        let mut state = self.state_mut();
        match decide(txn, state.revision(), |key| state.get(key)) {
            Decision::Refused(current) => {
                TxnOutcome::Refused { current, revision: state.revision() }
            }
            Decision::Unchanged => TxnOutcome::Committed(state.revision()),
            Decision::Commit(commit) => {
                state.apply(&commit);
                self.hub.publish(&[Arc::new(commit)]);
                TxnOutcome::Committed(state.revision())
            }
        }
    }
}

impl Store for Memory {
    fn range(&self, request: RangeRequest) -> BoxFuture<'_, Result<RangeResponse, Error>> {
        Box::pin(async move { self.read(&request) })
    }

    fn txn(&self, txn: Txn) -> BoxFuture<'_, Result<TxnOutcome, Error>> {
        Box::pin(async move { Ok(self.commit(&txn)) })
    }

    fn watch(
        &self,
        range: KeyRange,
        after: Option<Revision>,
    ) -> BoxFuture<'_, Result<Box<dyn Watch>, Error>> {
        Box::pin(ready(self.hub.watch(range, after, None)))
    }

    fn compact(&self, through: Revision) -> BoxFuture<'_, Result<(), Error>> {
        Box::pin(async move {
            self.hub.check_readable(through)?;
            self.hub.compact(through);
            Ok(())
        })
    }

    fn revision(&self) -> Revision {
        self.state().revision()
    }

    fn oldest(&self) -> Revision {
        self.hub.oldest()
    }
}
