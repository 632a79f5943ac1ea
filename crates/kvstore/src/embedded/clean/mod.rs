//! The background thread: keeps history within its budget, drops what became needless from the
//! index, rewrites segments of which little is needed, and verifies what lies there. Writers never
//! wait for it. Sleeps unless there is something to do.

mod plan;
mod scrub;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

use bytes::Bytes;
use stdx::{World, error_chain};
use tokio::sync::{mpsc, oneshot};

use self::plan::{Plan, Sealed, Worth};
use self::scrub::Scrub;
use super::core::{Core, Present};
use super::index::{HistoryBudget, Swept};
use super::log::{Frame, Kind, Place, ReadError, RewriteError};
use super::record::{CommitRecord, EventRecord, WallTime, parse_commit, render_kept};
use super::writer::Command;
use crate::Revision;

/// Keys looked at in one step of sweeping: what a writer may have to wait for.
const STEP_KEYS: usize = 512;
/// After a failure, the cleaner tries again when it is woken, or after this.
const RETRY: Duration = Duration::from_secs(60);

#[derive(Clone, Copy, Debug)]
pub(super) struct Settings {
    pub(super) budget: HistoryBudget,
    pub(super) segment_bytes: u32,
    pub(super) scrub_every: Duration,
    pub(super) scrub_bytes_per_second: u64,
}

pub(super) struct Cleaner {
    core: Arc<Core>,
    /// Weak: the writer ends when the last one who can ask it is gone.
    commands: mpsc::WeakSender<Command>,
    world: World,
    settings: Settings,
    /// The index has dropped what it should up to here.
    swept: Revision,
    scrub: Scrub,
    has_failed: bool,
    /// Segments that cannot be read, by id: they are left as they are.
    damaged: BTreeSet<u32>,
}

impl Cleaner {
    pub(super) fn new(
        core: Arc<Core>,
        commands: mpsc::WeakSender<Command>,
        world: World,
        settings: Settings,
    ) -> Self {
        let scrub = Scrub::new(settings.scrub_every, settings.scrub_bytes_per_second);
        let swept = Revision::EMPTY;
        Self {
            core,
            commands,
            world,
            settings,
            swept,
            scrub,
            has_failed: false,
            damaged: BTreeSet::new(),
        }
    }

    /// Until whoever wakes it is gone.
    pub(super) fn run(mut self, wakes: &Receiver<()>) {
        loop {
            self.has_failed = false;
            self.keep_budget();
            self.reclaim();
            self.clean();
            self.scrub.step(&self.core);
            match wakes.recv_timeout(self.idle_for()) {
                Ok(()) | Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
        }
        // The writer is gone, so nobody asks any more; who still waits is told by having no answer.
        self.core.reclaims().clear();
    }

    fn now(&self) -> WallTime {
        WallTime(self.world.clock.now().as_millisecond())
    }

    fn idle_for(&self) -> Duration {
        let oldest = self.core.hub.oldest();
        let too_old = self.core.present().index.next_too_old(&self.settings.budget, oldest);
        let too_old = too_old.map(|it| {
            // At least a second: the clock may be set back, and nothing here is urgent.
            Duration::from_millis(u64::try_from(it.0 - self.now().0).unwrap_or(0).max(1000))
        });
        let next = if self.has_failed { Some(RETRY) } else { too_old };
        let scrub = self.scrub.idle_for();
        next.map_or(scrub, |it| it.min(scrub))
    }

    /// Asks the writer to give up history that is beyond the budget.
    fn keep_budget(&mut self) {
        let oldest = self.core.hub.oldest();
        let through = {
            let present = self.core.present();
            present.index.over_budget(&self.settings.budget, self.now(), oldest)
        };
        let (Some(through), Some(commands)) = (through, self.commands.upgrade()) else { return };
        let (reply, answer) = oneshot::channel();
        let command = Command::Compact(through, reply);
        if commands.blocking_send(command).is_ok() {
            drop(commands);
            if let Ok(Err(error)) = answer.blocking_recv() {
                tracing::debug!(error = %error_chain(&error), "history stays beyond its budget for now");
                self.has_failed = true;
            }
        }
    }

    /// Drops what is needless from the index, then from the disk.
    pub(super) fn clean(&mut self) {
        if let Err(error) = self.rewrite_all(Worth::Half) {
            tracing::warn!(error = %error_chain(&error), "cannot rewrite a part of the store's log");
            self.has_failed = true;
        }
    }

    /// Gives everything needless back to the disk, for those who wait for it.
    pub(super) fn reclaim(&mut self) {
        let asked = std::mem::take(&mut *self.core.reclaims());
        if asked.is_empty() {
            return;
        }
        let outcome = self.rewrite_all(Worth::Anything).map_err(|source| crate::Error::Io {
            doing: "cannot rewrite a part of the store's log",
            source: Arc::new(source),
        });
        self.has_failed |= outcome.is_err();
        for reply in asked {
            let _ = reply.send(outcome.clone());
        }
    }

    fn rewrite_all(&mut self, worth: Worth) -> Result<(), RewriteError> {
        self.sweep();
        while self.rewrite(worth)? {}
        Ok(())
    }

    fn sweep(&mut self) {
        let oldest = self.core.hub.oldest();
        if self.swept >= oldest {
            return;
        }
        let _forgetting = self.core.keep();
        let mut from = Bytes::new();
        loop {
            let mut present = self.core.present_mut();
            let Present { state, index, .. } = &mut *present;
            match index.sweep(state, oldest, &from, STEP_KEYS) {
                Swept::Until(next) => from = next,
                Swept::All => {
                    index.forget_marks(oldest);
                    break;
                }
            }
        }
        self.swept = oldest;
    }

    /// True when there may be more.
    fn rewrite(&mut self, worth: Worth) -> Result<bool, RewriteError> {
        let sealed: Vec<Sealed> = self
            .core
            .log
            .segments()
            .iter()
            .filter(|it| it.is_sealed)
            .map(|it| Sealed {
                id: it.id,
                bytes: u64::from(it.bytes),
                is_damaged: self.damaged.contains(&it.id),
            })
            .collect();
        let plan = {
            let present = self.core.present();
            let segment_bytes = u64::from(self.settings.segment_bytes);
            plan::plan(&sealed, present.index.usage(), segment_bytes, worth)
        };
        let Some(plan) = plan else { return Ok(false) };
        let mut rewriting = Rewriting::new(&self.core, &plan);
        let rewritten = self.core.log.rewrite(&plan.segments, &mut |it| rewriting.keep(it));
        let rewritten = match rewritten {
            Ok(rewritten) => rewritten,
            Err(RewriteError::Read(ReadError::Damaged(damage))) => {
                self.scrub.tell(&self.core, &damage);
                self.damaged.extend(&plan.segments);
                return Ok(true);
            }
            Err(error) => return Err(error),
        };
        let Rewriting { kept, n_deletions_needless, .. } = rewriting;
        let mut present = self.core.present_mut();
        for ((revision, bytes), (_, place)) in kept.into_iter().zip(&rewritten.moved) {
            present.index.move_commit(revision, *place, bytes);
        }
        present.index.replace_segments(&plan.segments, rewritten.segment, n_deletions_needless);
        Ok(true)
    }
}

/// Decides frame by frame what a rewritten segment has.
struct Rewriting<'a> {
    core: &'a Core,
    drops_deletions: bool,
    /// Commits that were kept, with the size they have now.
    kept: Vec<(Revision, usize)>,
    n_deletions_needless: u64,
}

impl<'a> Rewriting<'a> {
    fn new(core: &'a Core, plan: &Plan) -> Self {
        Self {
            core,
            drops_deletions: plan.drops_deletions,
            kept: Vec::new(),
            n_deletions_needless: 0,
        }
    }

    fn keep(&mut self, frame: &Frame) -> Option<Bytes> {
        match frame.kind {
            Kind::Commit => {}
            // What it says is in the next segment's checkpoint too.
            Kind::Checkpoint
            | Kind::Compacted
            | Kind::Ceiling
            | Kind::Closed
            | Kind::Joined
            | Kind::Sealed => return None,
        }
        let commit = parse_commit(&frame.body)?;
        let events = self.needed(frame.place, &commit);
        if events.is_empty() {
            return None;
        }
        let body = if events.len() == commit.events.len() && commit.leases.is_empty() {
            frame.body.clone()
        } else {
            let mut body = Vec::with_capacity(frame.body.len());
            render_kept(&mut body, &commit, &events);
            Bytes::from(body)
        };
        self.kept.push((commit.revision, body.len()));
        Some(body)
    }

    fn needed<'b>(&mut self, place: Place, commit: &CommitRecord<'b>) -> Vec<EventRecord<'b>> {
        let present = self.core.present();
        if present.index.place(commit.revision).is_some_and(|it| it != place) {
            // The same commit again, from when a sync had failed.
            return Vec::new();
        }
        let is_kept = |event: &&EventRecord<'b>| {
            if present.index.needs(&present.state, commit.revision, event) {
                return true;
            }
            let guards = event.value.is_none() && !self.drops_deletions;
            self.n_deletions_needless += u64::from(guards);
            guards
        };
        commit.events.iter().filter(is_kept).copied().collect()
    }
}
