//! When the disk refuses: the store is read-only, tries again by itself, and goes on in a new
//! segment. The log ends then where the last sync reached, so relaxed transactions that were
//! published since are appended again.

use std::sync::Arc;

use stdx::error_chain;
use tokio::time::Instant;

use super::{Unsynced, Writer};
use crate::Error;
use crate::embedded::log::Kind;
use crate::embedded::record::render_commit;

/// Set while the disk refuses writes.
pub(super) struct Failure {
    pub(super) why: String,
    pub(super) retry_at: Instant,
}

impl Writer {
    /// Turns read-only.
    pub(super) fn fail(&mut self, error: &std::io::Error) -> Error {
        let why = error_chain(error);
        let delay = self.backoff.step();
        if self.failure.is_none() {
            self.forget_synced();
            tracing::error!(error = %why, ?delay, "cannot write to the store; it is read-only for now");
        }
        self.core.set_read_only(Some(why.clone()));
        self.failure = Some(Failure { why: why.clone(), retry_at: Instant::now() + delay });
        Error::ReadOnly { why }
    }

    /// What failed may have synced before it did, as a rotation does: that much is in the log for
    /// good, and must not be in it twice.
    fn forget_synced(&mut self) {
        if let Some(synced) = self.log.synced() {
            self.unsynced.commits.retain(|it| it.place >= synced);
        }
    }

    /// Tries to write again.
    pub(in crate::embedded) fn recover(&mut self) {
        if let Err(error) = self.resume() {
            self.fail(&error);
            return;
        }
        tracing::info!("the store can be written again");
        self.failure = None;
        self.core.set_read_only(None);
        self.wake_cleaner();
    }

    fn resume(&mut self) -> std::io::Result<()> {
        // Readers that find a commit gone from where it was wait until it is somewhere again.
        let core = Arc::clone(&self.core);
        let _places = core.places();
        if self.log.is_failed() {
            let mut checkpoint = self.checkpoint();
            if let Some(first) = self.unsynced.commits.first() {
                checkpoint.hash = first.before;
            }
            self.log.recover(&checkpoint.render())?;
        }
        let time = self.now();
        let mut bodies = Vec::with_capacity(self.unsynced.commits.len());
        for it in &self.unsynced.commits {
            let mut body = Vec::new();
            render_commit(&mut body, &it.commit, time, it.before);
            bodies.push(body);
        }
        let frames: Vec<_> = bodies.iter().map(|it| (Kind::Commit, it.as_slice())).collect();
        let places = self.log.append(&frames)?;
        self.log.sync()?;
        let mut present = core.present_mut();
        for ((it, place), body) in self.unsynced.commits.iter().zip(places).zip(&bodies) {
            if !it.commit.events.is_empty() {
                present.index.move_commit(it.commit.revision, place, body.len());
            }
        }
        drop(present);
        self.unsynced = Unsynced::default();
        Ok(())
    }
}
