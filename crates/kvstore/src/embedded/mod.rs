//! The store on local disk: the present in memory, history and durability in a log of checked
//! frames.
//!
//! Promises: an acknowledged durable write is synced; concurrent writes share a sync; readers, slow
//! watchers, compaction and snapshots never hold up the writer; idle writes nothing; a flipped bit
//! is found and never served; a disk that refuses writes makes the store read-only until it works
//! again. Must not be opened twice: the directory is locked.

mod check;
mod clean;
mod core;
#[doc(hidden)]
pub mod disk;
#[doc(hidden)]
pub mod garbage;
mod index;
#[doc(hidden)]
pub mod log;
mod migrate;
pub mod open;
mod own;
mod past;
mod rebuild;
mod record;
mod replay;
pub mod snapshot;
#[cfg(test)]
mod tests;
#[doc(hidden)]
pub mod torture;
mod writer;

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::{BoxFuture, ready};
use stdx::World;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::Instant;

pub use self::check::{Report, check, status};
use self::clean::Cleaner;
use self::core::Core;
use self::disk::Disk;
pub use self::index::HistoryBudget;
use self::log::Log;
use self::open::Site;
use self::past::Past;
use self::replay::Replayed;
pub use self::snapshot::{Restore, Restored, check_snapshot, restore};
use self::writer::{Command, Seat, Writer};
use crate::hub::{Hub, Retention};
use crate::{
    Error, LeaseId, LeaseStatus, RangeRequest, RangeResponse, Revision, Status, Store, Txn,
    TxnResponse, Watch, WatchRequest, Watches,
};

/// Writes that may wait for the writer before callers wait to queue theirs.
const QUEUE_COMMANDS: usize = 4096;

#[derive(Clone)]
pub struct Options {
    /// How much history is kept.
    pub history: HistoryBudget,
    /// Relaxed transactions are synced after this at the latest.
    pub relaxed_delay: Duration,
    /// When a segment of the log is full.
    pub segment_bytes: u32,
    /// Recent commits kept in memory, so that watches seldom read the disk.
    pub ring_commits: usize,
    pub ring_bytes: usize,
    /// Recent commits kept in memory for the values that they wrote. Older values are read from the
    /// log when they are asked for. (What the ring has is in both, but in memory once.)
    pub value_bytes: usize,
    /// After a failed write, the first wait before the next attempt, and the longest.
    pub retry_first: Duration,
    pub retry_max: Duration,
    /// How often all that lies on disk is verified, and how fast at most.
    pub scrub_every: Duration,
    pub scrub_bytes_per_second: u64,
    pub world: World,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            history: HistoryBudget::default(),
            relaxed_delay: Duration::from_millis(500),
            segment_bytes: 16 << 20,
            ring_commits: 4_096,
            ring_bytes: 16 << 20,
            value_bytes: 8 << 20,
            retry_first: Duration::from_millis(100),
            retry_max: Duration::from_secs(10),
            scrub_every: Duration::from_secs(24 * 3600),
            scrub_bytes_per_second: 8 << 20,
            world: World::system(),
        }
    }
}

pub struct Embedded {
    core: Arc<Core>,
    seat: Arc<Seat>,
    commands: mpsc::Sender<Command>,
    running: Mutex<Running>,
}

/// What ends with the store.
#[derive(Default)]
struct Running {
    /// In the order in which they end.
    threads: Vec<JoinHandle<()>>,
    site: Option<Site>,
}

impl Running {
    fn join(self) {
        let Self { threads, site } = self;
        for thread in threads {
            if thread.join().is_err() {
                tracing::error!("a thread of the store panicked");
            }
        }
        // Nobody uses the directory any more.
        drop(site);
    }
}

/// A store without its threads.
struct Parts {
    core: Arc<Core>,
    writer: Writer,
    cleaner: Cleaner,
    commands: (mpsc::Sender<Command>, mpsc::Receiver<Command>),
    wakes: std::sync::mpsc::Receiver<()>,
}

impl Embedded {
    /// Opens the store in `dir`, which is created if it does not exist.
    pub fn open(dir: &Path, options: Options) -> Result<Arc<Self>, open::Error> {
        let site = Site::open(dir)?;
        let disk = site.disk()?;
        let parts = Parts::open(dir, disk, &options)?;
        site.mark_format()?;
        let running = Running { threads: Vec::new(), site: Some(site) };
        parts.start(running)
    }

    /// A store on a disk of the caller's.
    #[cfg(test)]
    fn open_on(disk: Arc<dyn Disk>, options: &Options) -> Result<Arc<Self>, open::Error> {
        Parts::open(Path::new(""), disk, options)?.start(Running::default())
    }

    /// Carries out what is queued, ends every watch and releases the directory.
    pub async fn close(&self) {
        let (reply, done) = oneshot::channel();
        if self.commands.send(Command::Close(reply)).await.is_ok() {
            let _ = done.await;
        }
        let running = self.take_running();
        // The cleaner may have to finish a rewrite.
        let _ = tokio::task::spawn_blocking(move || running.join()).await;
    }

    /// Gives back to the disk all that is not needed any more, as after a compaction, and returns
    /// when that has happened. (The store does so by itself for what is worth it; this is for those
    /// who want to see it.) Writers go on meanwhile.
    pub async fn reclaim(&self) -> Result<(), Error> {
        self.ask(Command::Reclaim).await
    }

    /// What is wrong with the store, in words: it cannot be written now, or its history is damaged.
    pub fn condition(&self) -> watch::Receiver<Option<String>> {
        self.core.condition()
    }

    fn take_running(&self) -> Running {
        std::mem::take(&mut *self.running.lock().unwrap_or_else(PoisonError::into_inner))
    }

    async fn ask<T>(
        &self,
        command: impl FnOnce(oneshot::Sender<Result<T, Error>>) -> Command,
    ) -> Result<T, Error> {
        let (reply, answer) = oneshot::channel();
        self.commands.send(command(reply)).await.map_err(|_| Error::Closed)?;
        answer.await.map_err(|_| Error::Closed)?
    }

    fn keep_alive(&self, id: LeaseId) -> Result<Duration, Error> {
        let kept = self.core.deadlines().keep_alive(id, Instant::now());
        kept.ok_or(Error::LeaseNotFound { id })
    }

    fn lease_status(&self, id: LeaseId) -> Result<LeaseStatus, Error> {
        let present = self.core.present();
        let remaining = self.core.deadlines().remaining(id, Instant::now());
        let lease = present.state.lease(id).zip(remaining);
        let (lease, remaining) = lease.ok_or(Error::LeaseNotFound { id })?;
        let keys = lease.keys.iter().cloned().collect();
        Ok(LeaseStatus { id, granted: lease.ttl, remaining, keys })
    }
}

impl Parts {
    fn open(dir: &Path, disk: Arc<dyn Disk>, options: &Options) -> Result<Self, open::Error> {
        let log_options = log::Options {
            segment_bytes: options.segment_bytes,
            ..log::Options::new(options.world.random.next_u64())
        };
        let (log, replayed) = open::open_log(dir, disk, &log_options, options.value_bytes)?;
        Ok(Self::new(log, replayed, options))
    }

    fn new(log: Log, replayed: Replayed, options: &Options) -> Self {
        let Replayed { present, oldest, ceiling } = replayed;
        let retention = Retention { commits: options.ring_commits, bytes: options.ring_bytes };
        let hub = Hub::new(present.state.revision(), oldest, retention);
        let core = Arc::new(Core::new(present, hub, log.reader()));
        let commands = mpsc::channel(QUEUE_COMMANDS);
        let (wake, wakes) = std::sync::mpsc::sync_channel(1);
        let settings = writer::Settings {
            relaxed_delay: options.relaxed_delay,
            retry_first: options.retry_first,
            retry_max: options.retry_max,
        };
        let world = options.world.clone();
        let writer = Writer::new(core.clone(), log, ceiling, (world.clone(), settings), wake);
        let settings = clean::Settings {
            budget: options.history,
            segment_bytes: options.segment_bytes,
            scrub_every: options.scrub_every,
            scrub_bytes_per_second: options.scrub_bytes_per_second,
        };
        let cleaner = Cleaner::new(core.clone(), commands.0.downgrade(), world, settings);
        Self { core, writer, cleaner, commands, wakes }
    }

    fn start(self, mut running: Running) -> Result<Arc<Embedded>, open::Error> {
        let Self { core, writer, cleaner, commands: (commands, receiver), wakes } = self;
        let failed = |source| open::Error::StartThreads { source };
        // The threads have no runtime of the caller's to wait with.
        let timer = tokio::runtime::Builder::new_current_thread().enable_time().build();
        let timer = timer.map_err(failed)?;
        let thread = |name: &str| std::thread::Builder::new().name(name.to_owned());
        let seat = Arc::new(Seat::new(writer));
        let (core_there, seat_there) = (core.clone(), seat.clone());
        let writing = thread("store-writer")
            .spawn(move || writer::run(core_there, seat_there, receiver, &timer));
        running.threads.push(writing.map_err(failed)?);
        let cleaning = thread("store-cleaner").spawn(move || cleaner.run(&wakes));
        running.threads.push(cleaning.map_err(failed)?);
        Ok(Arc::new(Embedded { core, seat, commands, running: Mutex::new(running) }))
    }
}

impl Drop for Embedded {
    fn drop(&mut self) {
        // With its last sender gone the writer finishes and ends. The directory is released when
        // this returns.
        self.commands = mpsc::channel(1).0;
        self.take_running().join();
    }
}

impl Store for Embedded {
    fn range(&self, request: RangeRequest) -> BoxFuture<'_, Result<RangeResponse, Error>> {
        Box::pin(self.core.range(request))
    }

    fn txn(&self, mut txn: Txn) -> BoxFuture<'_, Result<TxnResponse, Error>> {
        own::own(&mut txn);
        Box::pin(self.ask(|reply| Command::Txn(txn, reply.into())))
    }

    fn txns(&self, mut txns: Vec<Txn>) -> BoxFuture<'_, Vec<Result<TxnResponse, Error>>> {
        let n_txns = txns.len();
        if n_txns == 0 {
            return Box::pin(ready(Vec::new()));
        }
        txns.iter_mut().for_each(own::own);
        let asked = self.ask(|reply| Command::Txns(txns, reply));
        Box::pin(asked.map(move |it| it.unwrap_or_else(|error| vec![Err(error); n_txns])))
    }

    fn txn_here(&self, txn: Txn) -> Result<Result<TxnResponse, Error>, Txn> {
        self.seat.txn_here(txn)
    }

    fn watch(&self, request: WatchRequest) -> BoxFuture<'_, Result<Box<dyn Watch>, Error>> {
        let past = Arc::new(Past(self.core.clone()));
        Box::pin(ready(self.core.hub.watch(request, Some(past))))
    }

    fn watches(&self) -> Box<dyn Watches> {
        self.core.hub.watches(Some(Arc::new(Past(self.core.clone()))))
    }

    fn compact(&self, through: Revision) -> BoxFuture<'_, Result<(), Error>> {
        Box::pin(self.ask(move |reply| Command::Compact(through, reply)))
    }

    fn current(&self) -> BoxFuture<'_, Result<Revision, Error>> {
        Box::pin(ready(Ok(self.revision())))
    }

    fn revision(&self) -> Revision {
        self.core.revision()
    }

    fn oldest(&self) -> Revision {
        self.core.hub.oldest()
    }

    fn status(&self) -> BoxFuture<'_, Result<Status, Error>> {
        Box::pin(ready(Ok(self.core.status())))
    }

    fn lease_grant(
        &self,
        id: Option<LeaseId>,
        ttl: Duration,
    ) -> BoxFuture<'_, Result<LeaseId, Error>> {
        Box::pin(self.ask(move |reply| Command::Grant(id, ttl, reply)))
    }

    fn lease_revoke(&self, id: LeaseId) -> BoxFuture<'_, Result<Revision, Error>> {
        Box::pin(self.ask(move |reply| Command::Revoke(id, Some(reply))))
    }

    fn lease_keep_alive(&self, id: LeaseId) -> BoxFuture<'_, Result<Duration, Error>> {
        Box::pin(ready(self.keep_alive(id)))
    }

    fn lease(&self, id: LeaseId) -> BoxFuture<'_, Result<LeaseStatus, Error>> {
        Box::pin(ready(self.lease_status(id)))
    }

    fn leases(&self) -> BoxFuture<'_, Result<Vec<LeaseId>, Error>> {
        let present = self.core.present();
        let ids = present.state.leases().map(|(id, _)| id).collect();
        Box::pin(ready(Ok(ids)))
    }
}
