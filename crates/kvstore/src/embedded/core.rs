//! What readers and the writer share: the current state, the watches and the database.

use std::sync::{Arc, RwLock, RwLockReadGuard};

use super::slot::Disk;
use crate::hub::{History as _, Hub, check_start};
use crate::state::{Commit, State, Undo, note_previous};
use crate::{Error, RangeRequest, RangeResponse, Revision};

pub(super) struct Core {
    /// Written by the writer thread alone. Locked before the hub.
    state: RwLock<State>,
    pub(super) hub: Arc<Hub>,
    pub(super) disk: Arc<Disk>,
}

impl Core {
    pub(super) fn new(state: State, hub: Hub, disk: Disk) -> Self {
        Self { state: RwLock::new(state), hub: Arc::new(hub), disk: Arc::new(disk) }
    }

    pub(super) fn state(&self) -> RwLockReadGuard<'_, State> {
        self.state.read().expect("no code panics while it holds the state")
    }

    pub(super) fn revision(&self) -> Revision {
        self.state().revision()
    }

    /// Makes durable commits visible to ranges and watches at one moment.
    pub(super) fn publish(&self, commits: &[Arc<Commit>]) {
        let mut state = self.state.write().expect("no code panics while it holds the state");
        commits.iter().for_each(|it| state.apply(it));
        self.hub.publish(commits);
    }

    pub(super) async fn range(&self, request: &RangeRequest) -> Result<RangeResponse, Error> {
        let Some(at) = request.at else {
            return Ok(self.state().range(request));
        };
        let mut undo = Undo::new();
        let mut seen = at;
        loop {
            let through = match self.range_from_memory(request, at, seen, &mut undo)? {
                Ok(response) => return Ok(response),
                Err(revision) => revision,
            };
            let from = seen.next();
            let commits = self.disk.clone().commits(from, through).await?;
            // A compaction that came between may have left the history incomplete.
            self.hub.check_readable(at)?;
            check_start(from, &commits)?;
            commits.iter().for_each(|it| note_previous(&mut undo, &request.range, it));
            seen = commits.last().map_or(seen, |it| it.revision);
        }
    }

    /// Answers when the ring has everything after `seen`; otherwise says up to which revision the disk has
    /// to be read.
    fn range_from_memory(
        &self,
        request: &RangeRequest,
        at: Revision,
        seen: Revision,
        undo: &mut Undo,
    ) -> Result<Result<RangeResponse, Revision>, Error> {
        let state = self.state();
        self.hub.check_readable(at)?;
        let Some(since) = self.hub.ring_after(seen) else {
            return Ok(Err(state.revision()));
        };
        since.iter().for_each(|it| note_previous(undo, &request.range, it));
        Ok(Ok(state.range_at(request, at, undo)))
    }
}
