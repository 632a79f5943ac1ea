//! The one writer. Takes whatever is queued, decides it in order, appends it with one write, syncs
//! once, publishes, and only then answers: acknowledged means synced. Never waits for more work to
//! come, so a lone write costs one sync.
//!
//! Relaxed transactions alone are not synced at once but within `Options::relaxed_delay`; before
//! their revisions are used, a synced ceiling is above them.

mod batch;
mod recovery;
mod reply;
mod seat;
mod thread;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use stdx::{Backoff, World};
use tokio::sync::oneshot;
use tokio::time::Instant;

use self::batch::{Answer, Batch};
use self::recovery::Failure;
use self::reply::{Outcome, TxnReply};
use super::core::{Core, Written};
use super::log::{Kind, Log, Place};
use super::record::{Checkpoint, HistoryHash, WallTime, render_commit, render_revision};
use crate::{Error, LeaseId, Revision, Txn};

pub(super) use seat::Seat;
pub(super) use thread::run;

/// Commands that one sync may serve.
pub(super) const BATCH_COMMANDS: usize = 1024;
/// How many revisions a ceiling is ahead of the relaxed transaction that needed it: a sync for each
/// so many, and at most so many revisions unused after a crash.
const CEILING_STEP: u64 = 4096;
/// More than this is not left unsynced.
const RELAXED_BYTES: usize = 8 << 20;
/// The buffer that transactions are rendered into is given back when it grew beyond this.
const BUFFER_BYTES: usize = 16 << 20;

pub(super) type Reply<T> = oneshot::Sender<Result<T, Error>>;

pub(super) enum Command {
    Txn(Txn, TxnReply),
    /// Several at once; at least one.
    Txns(Vec<Txn>, Reply<Vec<Outcome>>),
    Grant(Option<LeaseId>, Duration, Reply<LeaseId>),
    /// Without a reply it is a lease whose time has come.
    Revoke(LeaseId, Option<Reply<Revision>>),
    Compact(Revision, Reply<()>),
    /// Ends the segment under way, so that the cleaner can rewrite it as well. The cleaner answers.
    Reclaim(Reply<()>),
    Close(oneshot::Sender<()>),
}

pub(super) struct Writer {
    core: Arc<Core>,
    log: Log,
    world: World,
    relaxed_delay: Duration,
    /// Synced: no revision up to this one is given out again after a crash.
    ceiling: Revision,
    unsynced: Unsynced,
    failure: Option<Failure>,
    backoff: Backoff,
    /// Bodies of the batch under way; kept for its memory.
    buffer: Vec<u8>,
    cleaner: std::sync::mpsc::SyncSender<()>,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Settings {
    pub(super) relaxed_delay: Duration,
    pub(super) retry_first: Duration,
    pub(super) retry_max: Duration,
}

/// Commits that are published but may not be on disk.
#[derive(Default)]
struct Unsynced {
    commits: Vec<Pending>,
    bytes: usize,
    due: Option<Instant>,
}

struct Pending {
    commit: Arc<crate::state::Commit>,
    place: Place,
    /// Stands for the history that it follows.
    before: HistoryHash,
}

impl Writer {
    pub(super) fn new(
        core: Arc<Core>,
        log: Log,
        ceiling: Revision,
        (world, settings): (World, Settings),
        cleaner: std::sync::mpsc::SyncSender<()>,
    ) -> Self {
        let backoff = Backoff::new(settings.retry_first, settings.retry_max);
        let (unsynced, buffer) = (Unsynced::default(), Vec::new());
        Self {
            core,
            log,
            world,
            relaxed_delay: settings.relaxed_delay,
            ceiling,
            unsynced,
            failure: None,
            backoff,
            buffer,
            cleaner,
        }
    }

    fn now(&self) -> WallTime {
        WallTime(self.world.clock.now().as_millisecond())
    }

    /// Carries out one command, and returns its answer.
    pub(super) fn carry_out<T>(
        &mut self,
        command: impl FnOnce(Reply<T>) -> Command,
    ) -> Result<T, Error> {
        let (reply, mut answer) = oneshot::channel();
        self.execute([command(reply)]);
        answer.try_recv().expect("the writer answers what it carried out")
    }

    /// Carries out commands in order; what lies between two compactions shares a sync.
    pub(super) fn execute(
        &mut self,
        asked: impl IntoIterator<Item = Command>,
    ) -> Option<oneshot::Sender<()>> {
        let mut commands = VecDeque::new();
        for command in asked {
            match command {
                Command::Txns(txns, reply) => commands.extend(reply::split(txns, reply)),
                command => commands.push_back(command),
            }
        }
        let mut closing = None;
        while let Some(command) = commands.pop_front() {
            match command {
                Command::Compact(through, reply) => drop(reply.send(self.compact(through))),
                Command::Reclaim(reply) => self.reclaim(reply),
                Command::Close(reply) => closing = Some(reply),
                command => {
                    commands.push_front(command);
                    let batch = match &self.failure {
                        None => Batch::decide(&self.core, &self.world.random, &mut commands),
                        Some(failure) => Batch::refuse(&self.core, &mut commands, &failure.why),
                    };
                    self.commit(batch);
                }
            }
        }
        closing
    }

    fn commit(&mut self, batch: Batch) {
        let Batch { commits, answers, is_durable, bytes, .. } = batch;
        if commits.is_empty() {
            return answers.into_iter().for_each(Answer::send);
        }
        let time = self.now();
        self.buffer.clear();
        self.buffer.reserve(bytes);
        match self.write(commits, is_durable, time) {
            Ok(written) => {
                let unsynced = self.unsynced.commits.first().map(|it| it.commit.revision);
                self.core.publish(&written, time, unsynced);
                answers.into_iter().for_each(Answer::send);
                self.backoff.reset();
            }
            // A refusal may rest on a write of the same batch that did not happen, so all fail.
            Err(error) => answers.into_iter().for_each(|it| it.fail(&error)),
        }
    }

    fn write(
        &mut self,
        commits: Vec<Arc<crate::state::Commit>>,
        is_durable: bool,
        time: WallTime,
    ) -> Result<Vec<Written>, Error> {
        let mut ends = Vec::with_capacity(commits.len());
        let mut hashes = Vec::with_capacity(commits.len());
        let before = self.core.present().hash;
        for commit in &commits {
            let before = hashes.last().copied().unwrap_or(before);
            hashes.push(render_commit(&mut self.buffer, commit, time, before));
            ends.push(self.buffer.len());
        }
        let last = commits.last().map_or(Revision::EMPTY, |it| it.revision);
        let ceiling =
            (!is_durable && last > self.ceiling).then_some(Revision(last.0 + CEILING_STEP));
        let has_room = self.unsynced.bytes + self.buffer.len() <= RELAXED_BYTES;
        let is_synced = is_durable || ceiling.is_some() || !has_room;
        let places = self.append(ceiling, &ends, is_synced);
        let places = places.map_err(|error| self.fail(&error))?;
        let starts = std::iter::once(0).chain(ends.iter().copied());
        let sizes = starts.zip(&ends).map(|(start, end)| end - start);
        let written = commits.into_iter().zip(places).zip(sizes.zip(hashes));
        let written: Vec<Written> = written
            .map(|((commit, place), (bytes, hash))| Written { commit, place, bytes, hash })
            .collect();
        if is_synced {
            self.unsynced = Unsynced::default();
            self.ceiling = self.ceiling.max(ceiling.unwrap_or(self.ceiling));
        } else {
            let hashes = std::iter::once(before).chain(written.iter().map(|it| it.hash));
            self.unsynced.commits.extend(written.iter().zip(hashes).map(|(it, before)| Pending {
                commit: it.commit.clone(),
                place: it.place,
                before,
            }));
            self.unsynced.bytes += self.buffer.len();
            let delay = self.relaxed_delay;
            self.unsynced.due.get_or_insert_with(|| Instant::now() + delay);
        }
        if self.buffer.capacity() > BUFFER_BYTES {
            self.buffer = Vec::new();
        }
        Ok(written)
    }

    /// Appends the bodies in the buffer, which end at `ends`; returns where they went.
    fn append(
        &mut self,
        ceiling: Option<Revision>,
        ends: &[usize],
        is_synced: bool,
    ) -> std::io::Result<Vec<Place>> {
        let time = self.now();
        let ceiling = ceiling.map(render_revision);
        let mut bodies: Vec<(Kind, &[u8])> = Vec::with_capacity(ends.len() + 1);
        bodies.extend(ceiling.iter().map(|it| (Kind::Ceiling, it.as_slice())));
        let mut start = 0;
        for end in ends {
            bodies.push((Kind::Commit, &self.buffer[start..*end]));
            start = *end;
        }
        if self.log.is_full(bodies.len(), self.buffer.len()) {
            self.log.rotate(&checkpoint(&self.core, self.ceiling, time).render())?;
            self.unsynced = Unsynced::default();
            let _ = self.cleaner.try_send(());
        }
        let mut places = self.log.append(&bodies)?;
        if is_synced {
            self.log.sync()?;
        }
        Ok(places.split_off(usize::from(ceiling.is_some())))
    }

    fn compact(&mut self, through: Revision) -> Result<(), Error> {
        self.core.hub.check_readable(through)?;
        if through == self.core.hub.oldest() {
            return Ok(());
        }
        if let Some(failure) = &self.failure {
            return Err(Error::ReadOnly { why: failure.why.clone() });
        }
        let body = render_revision(through);
        let written = self.log.append(&[(Kind::Compacted, &body)]).and_then(|_| self.log.sync());
        written.map_err(|error| self.fail(&error))?;
        self.unsynced = Unsynced::default();
        self.core.hub.compact(through);
        self.wake_cleaner();
        Ok(())
    }

    fn reclaim(&mut self, reply: Reply<()>) {
        if let Some(failure) = &self.failure {
            let _ = reply.send(Err(Error::ReadOnly { why: failure.why.clone() }));
            return;
        }
        if self.log.has_records() {
            if let Err(error) = self.log.rotate(&self.checkpoint().render()) {
                let _ = reply.send(Err(self.fail(&error)));
                return;
            }
            self.unsynced = Unsynced::default();
        }
        self.core.reclaims().push(reply);
        self.wake_cleaner();
    }

    fn wake_cleaner(&self) {
        // When it is full the cleaner will look anyway.
        let _ = self.cleaner.try_send(());
    }

    pub(super) fn sync(&mut self) {
        if self.failure.is_some() {
            return;
        }
        match self.log.sync() {
            Ok(()) => self.unsynced = Unsynced::default(),
            Err(error) => drop(self.fail(&error)),
        }
    }

    fn checkpoint(&self) -> Checkpoint {
        checkpoint(&self.core, self.ceiling, self.now())
    }

    /// Ends leases whose time has come. From here on they cannot be kept alive, unless the disk
    /// refuses.
    pub(super) fn expire(&mut self) {
        if self.failure.is_some() {
            return;
        }
        let now = Instant::now();
        let expired = {
            let mut deadlines = self.core.deadlines();
            let expired = deadlines.expired(now);
            expired.iter().for_each(|id| deadlines.revoke(*id));
            expired
        };
        if expired.is_empty() {
            return;
        }
        self.execute(expired.iter().map(|id| Command::Revoke(*id, None)));
        if self.failure.is_some() {
            let present = self.core.present();
            let mut deadlines = self.core.deadlines();
            for id in expired {
                if let Some(lease) = present.state.lease(id) {
                    deadlines.grant(id, lease.ttl, now);
                }
            }
        }
    }

    pub(super) fn is_failed(&self) -> bool {
        self.failure.is_some()
    }

    /// When there is something to do without a command.
    fn wake_at(&self) -> Option<Instant> {
        match &self.failure {
            Some(failure) => Some(failure.retry_at),
            None => [self.unsynced.due, self.core.deadlines().next()].into_iter().flatten().min(),
        }
    }

    /// Does what is due.
    fn tick(&mut self) {
        let now = Instant::now();
        if self.failure.as_ref().is_some_and(|it| it.retry_at <= now) {
            self.recover();
        }
        if self.failure.is_none() && self.unsynced.due.is_some_and(|it| it <= now) {
            self.sync();
        }
        self.expire();
    }

    /// A clean end, so that the next opening knows that nothing is missing.
    pub(super) fn close(self) {
        let Self { core, mut log, failure, ceiling, .. } = self;
        if failure.is_none() {
            let revision = core.revision();
            let lowered = match ceiling > revision {
                true => log.append(&[(Kind::Ceiling, &render_revision(revision))]).map(drop),
                false => Ok(()),
            };
            if let Err(error) = lowered.and_then(|()| log.close()) {
                tracing::warn!(%error, "cannot note the clean end of the store");
            }
        }
        core.hub.close();
    }
}

fn checkpoint(core: &Core, ceiling: Revision, time: WallTime) -> Checkpoint {
    let present = core.present();
    Checkpoint {
        revision: present.state.revision(),
        oldest: core.hub.oldest(),
        ceiling,
        time,
        hash: present.hash,
        leases: present.state.leases().map(|(id, lease)| (id, lease.ttl)).collect(),
    }
}
