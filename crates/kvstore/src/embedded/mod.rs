//! The store on local disk: current state in memory, history and durability in one redb file.
//!
//! Promises: an acknowledged write is synced; concurrent writes share a sync; readers and slow watchers
//! never hold up the writer; idle writes nothing; a disk that refuses writes makes the store read-only
//! until it works again. Must not be opened twice: the file is locked.

mod core;
#[doc(hidden)]
pub mod disk;
#[doc(hidden)]
pub mod log;
pub mod open;
mod record;
mod slot;
mod sweep;
mod tables;
#[cfg(test)]
mod tests;
mod writer;

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use futures_util::future::{BoxFuture, ready};
use stdx::Backoff;
use tokio::sync::{mpsc, oneshot};

use self::core::Core;
use self::open::{Opener, Site};
use self::slot::Disk;
use self::writer::{Command, Writer};
use crate::hub::{Hub, Retention};
use crate::{
    Error, LeaseId, LeaseStatus, RangeRequest, RangeResponse, Revision, Status, Store, Txn,
    TxnResponse, Watch, WatchRequest,
};

/// Writes that may wait for the writer before callers wait to queue theirs.
const QUEUE_COMMANDS: usize = 4096;

#[derive(Clone, Debug)]
pub struct Options {
    /// What redb may keep in memory. Small: current state is in memory anyway, and history is read seldom.
    pub cache_bytes: usize,
    /// Recent commits kept in memory, so that watches seldom read the disk.
    pub ring_commits: usize,
    pub ring_bytes: usize,
    /// After a failed write, the first wait before the next attempt, and the longest.
    pub retry_first: Duration,
    pub retry_max: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            cache_bytes: 8 << 20,
            ring_commits: 4_096,
            ring_bytes: 16 << 20,
            retry_first: Duration::from_millis(100),
            retry_max: Duration::from_secs(10),
        }
    }
}

pub struct Embedded {
    core: Arc<Core>,
    commands: mpsc::Sender<Command>,
    writer: Mutex<Option<JoinHandle<()>>>,
}

impl Embedded {
    /// Opens the store in `dir`, which is created if it does not exist.
    pub fn open(dir: &Path, options: Options) -> Result<Arc<Self>, open::Error> {
        Self::open_with(dir, &options, Box::new(open::open_file))
    }

    fn open_with(dir: &Path, options: &Options, opener: Opener) -> Result<Arc<Self>, open::Error> {
        let site = Site { dir: dir.to_owned(), cache_bytes: options.cache_bytes, opener };
        let database = site.open()?;
        let restored = site.restore(&database)?;
        let retention = Retention { commits: options.ring_commits, bytes: options.ring_bytes };
        let hub = Hub::new(restored.state.revision(), restored.oldest, retention);
        let core = Arc::new(Core::new(restored.state, hub, Disk::new(site, database)));
        let (commands, commands_rx) = mpsc::channel(QUEUE_COMMANDS);
        let writer = Writer {
            core: core.clone(),
            commands: commands_rx,
            swept: restored.swept,
            backoff: Backoff::new(options.retry_first, options.retry_max),
            failure: None,
        };
        let thread = std::thread::Builder::new()
            .name("kvstore-writer".to_owned())
            .spawn(move || writer.run())
            .map_err(|source| open::Error::StartWriter { source })?;
        Ok(Arc::new(Self { core, commands, writer: Mutex::new(Some(thread)) }))
    }

    /// Carries out what is queued, ends every watch and releases the file.
    pub async fn close(&self) {
        let (reply, done) = oneshot::channel();
        if self.commands.send(Command::Close(reply)).await.is_ok() {
            let _ = done.await;
        }
        self.join();
    }

    fn join(&self) {
        let thread = self.writer.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(Err(_)) = thread.map(JoinHandle::join) {
            tracing::error!("the store's writer thread panicked");
        }
    }

    async fn ask<T>(
        &self,
        command: impl FnOnce(oneshot::Sender<Result<T, Error>>) -> Command,
    ) -> Result<T, Error> {
        let (reply, answer) = oneshot::channel();
        self.commands.send(command(reply)).await.map_err(|_| Error::Closed)?;
        answer.await.map_err(|_| Error::Closed)?
    }
}

impl Drop for Embedded {
    fn drop(&mut self) {
        // With its last sender gone the writer finishes and ends. The file is released when this returns.
        self.commands = mpsc::channel(1).0;
        self.join();
    }
}

impl Store for Embedded {
    fn range(&self, request: RangeRequest) -> BoxFuture<'_, Result<RangeResponse, Error>> {
        Box::pin(async move { self.core.range(&request).await })
    }

    fn txn(&self, txn: Txn) -> BoxFuture<'_, Result<TxnResponse, Error>> {
        Box::pin(self.ask(|reply| Command::Txn(txn, reply)))
    }

    fn watch(&self, request: WatchRequest) -> BoxFuture<'_, Result<Box<dyn Watch>, Error>> {
        Box::pin(ready(self.core.hub.watch(request, Some(self.core.disk.clone()))))
    }

    fn compact(&self, through: Revision) -> BoxFuture<'_, Result<(), Error>> {
        Box::pin(self.ask(move |reply| Command::Compact(through, reply)))
    }

    fn revision(&self) -> Revision {
        self.core.revision()
    }

    fn oldest(&self) -> Revision {
        self.core.hub.oldest()
    }

    fn current(&self) -> BoxFuture<'_, Result<Revision, Error>> {
        Box::pin(ready(Ok(self.revision())))
    }

    fn status(&self) -> BoxFuture<'_, Result<Status, Error>> {
        Box::pin(ready(Err(no_leases())))
    }

    fn lease_grant(
        &self,
        _id: Option<LeaseId>,
        _ttl: Duration,
    ) -> BoxFuture<'_, Result<LeaseId, Error>> {
        Box::pin(ready(Err(no_leases())))
    }

    fn lease_revoke(&self, _id: LeaseId) -> BoxFuture<'_, Result<Revision, Error>> {
        Box::pin(ready(Err(no_leases())))
    }

    fn lease_keep_alive(&self, _id: LeaseId) -> BoxFuture<'_, Result<Duration, Error>> {
        Box::pin(ready(Err(no_leases())))
    }

    fn lease(&self, _id: LeaseId) -> BoxFuture<'_, Result<LeaseStatus, Error>> {
        Box::pin(ready(Err(no_leases())))
    }

    fn leases(&self) -> BoxFuture<'_, Result<Vec<LeaseId>, Error>> {
        Box::pin(ready(Err(no_leases())))
    }
}

fn no_leases() -> Error {
    Error::Unavailable { why: "this format has no leases and no status".to_owned() }
}
