//! The database behind a slot: readers find it here, and the writer puts a fresh one in after a failed
//! write, because redb refuses all work after an I/O error until it is opened again.

use std::sync::{Arc, PoisonError, RwLock};

use futures_util::future::BoxFuture;
use redb::{Database, ReadOnlyTable, ReadableDatabase as _};

use super::open::Site;
use super::record::{Record, unreadable};
use super::tables::LOG;
use crate::hub::History;
use crate::state::Commit;
use crate::{Error, Event, KeyValue, Revision};

/// One read of history returns about this many events at most.
const CHUNK_EVENTS: usize = 1024;

type Log = ReadOnlyTable<(u64, u32), &'static [u8]>;

pub(super) struct Disk {
    pub(super) site: Site,
    /// `None`: closed, or being opened again.
    slot: RwLock<Option<Arc<Database>>>,
}

impl Disk {
    pub(super) fn new(site: Site, database: Database) -> Self {
        Self { site, slot: RwLock::new(Some(Arc::new(database))) }
    }

    pub(super) fn database(&self) -> Option<Arc<Database>> {
        self.slot.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Readers that are at work keep the old database until they are done.
    pub(super) fn replace(&self, database: Option<Database>) {
        let mut slot = self.slot.write().unwrap_or_else(PoisonError::into_inner);
        *slot = database.map(Arc::new);
    }

    /// The commits `from..=through`, as many as make a chunk.
    pub(super) fn read(
        &self,
        from: Revision,
        through: Revision,
    ) -> Result<Vec<Arc<Commit>>, Error> {
        let failed = io("reading history");
        let database = self.database().ok_or_else(|| failed(redb::Error::DatabaseClosed))?;
        let commits = read_commits(&database, from, through).map_err(failed)?;
        Ok(commits.into_iter().map(Arc::new).collect())
    }
}

impl History for Disk {
    fn commits(
        self: Arc<Self>,
        from: Revision,
        through: Revision,
    ) -> BoxFuture<'static, Result<Vec<Arc<Commit>>, Error>> {
        Box::pin(async move {
            let read = tokio::task::spawn_blocking(move || self.read(from, through));
            read.await.unwrap_or(Err(Error::Closed))
        })
    }
}

/// An error of redb as ours.
pub(super) fn io(doing: &'static str) -> impl Fn(redb::Error) -> Error {
    move |error| Error::Io { doing, source: Arc::new(error) }
}

pub(super) fn read_commits(
    database: &Database,
    from: Revision,
    through: Revision,
) -> Result<Vec<Commit>, redb::Error> {
    let log = database.begin_read()?.open_table(LOG)?;
    let mut commits: Vec<Commit> = Vec::new();
    for (n_events, row) in log.range((from.0, 0)..=(through.0, u32::MAX))?.enumerate() {
        let (position, bytes) = row?;
        let revision = Revision(position.value().0);
        let is_next = commits.last().is_none_or(|it| it.revision != revision);
        if is_next && n_events >= CHUNK_EVENTS {
            break;
        }
        let record = Record::parse(revision, bytes.value()).ok_or_else(|| unreadable(revision))?;
        let previous = match record.previous {
            Some(at) => find(&log, at, &record.key)?,
            None => None,
        };
        let event = Event { key: record.key, value: record.value, previous, revision };
        match commits.last_mut().filter(|_| !is_next) {
            Some(commit) => commit.events.push(event),
            None => commits.push(Commit { revision, events: vec![event], leases: vec![] }),
        }
    }
    Ok(commits)
}

/// The value that `key` got at `revision`. Absent only when a compaction has removed it.
fn find(log: &Log, revision: Revision, key: &[u8]) -> Result<Option<KeyValue>, redb::Error> {
    for row in log.range((revision.0, 0)..=(revision.0, u32::MAX))? {
        let (_, bytes) = row?;
        if Record::header(bytes.value()).is_some_and(|it| it.key == key) {
            let record =
                Record::parse(revision, bytes.value()).ok_or_else(|| unreadable(revision))?;
            return Ok(record.value);
        }
    }
    Ok(None)
}
