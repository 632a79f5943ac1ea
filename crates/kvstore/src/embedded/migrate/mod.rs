//! Format 1, a redb file, to the log. The old file is kept until the new log is complete and in
//! place; a crash anywhere leaves either the old store, which is migrated again, or the new one.

mod record;
mod tables;
#[cfg(test)]
mod tests;

use std::io::{self, ErrorKind};
use std::path::Path;

use redb::{
    Database, DatabaseError, ReadableDatabase as _, ReadableTable as _, StorageError, TableError,
};

use self::record::Record;
pub(super) use self::record::check_parser;
use self::tables::{LOG, META};
use super::open::{self, sync_directory, write_format};
use super::rebuild::Rebuild;
use super::record::{Checkpoint, HistoryHash, WallTime, render_migrated};
use crate::Revision;
use crate::state::Commit;

const FILE: &str = "store.redb";
const FILE_UNFINISHED: &str = "store.redb.new";
const LOG_UNFINISHED: &str = "log.new";
/// What redb may keep in memory: the file is read once, in order.
const CACHE_BYTES: usize = 8 << 20;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("cannot read the old file")]
    Read {
        #[source]
        source: Box<redb::Error>,
    },
    #[error("cannot write the new log")]
    Write {
        #[source]
        source: io::Error,
    },
}

pub(super) fn is_old(dir: &Path) -> bool {
    dir.join(FILE).exists()
}

/// Removes what a migration has left, now that the new log is in place.
pub(super) fn remove_old(dir: &Path) -> io::Result<()> {
    let mut is_gone = false;
    for name in [FILE, FILE_UNFINISHED] {
        match std::fs::remove_file(dir.join(name)) {
            Ok(()) => is_gone = true,
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    if is_gone { sync_directory(dir) } else { Ok(()) }
}

pub(super) fn migrate(dir: &Path) -> Result<(), open::Error> {
    let file = dir.join(FILE);
    let failed = |source| open::Error::Migrate { file: file.clone(), source };
    let write = |source| failed(Error::Write { source });
    // The log gets its name when it is complete.
    if !dir.join(open::LOG).exists() {
        tracing::info!(file = %file.display(), "migrating the store to a log");
        let database = open_old(&file)?;
        let unfinished = dir.join(LOG_UNFINISHED);
        match std::fs::remove_dir_all(&unfinished) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(write(error)),
            _ => {}
        }
        copy(&database, &unfinished).map_err(failed)?;
        drop(database);
        std::fs::rename(&unfinished, dir.join(open::LOG))
            .and_then(|()| sync_directory(dir))
            .map_err(write)?;
    }
    write_format(dir).and_then(|()| remove_old(dir)).map_err(write)
}

fn open_old(file: &Path) -> Result<Database, open::Error> {
    let foreign = || open::Error::Foreign { file: file.to_owned() };
    let explain = |source: redb::Error| {
        let source = Error::Read { source: Box::new(source) };
        open::Error::Migrate { file: file.to_owned(), source }
    };
    let mut builder = redb::Builder::new();
    builder.set_cache_size(CACHE_BYTES);
    let database = builder.open(file).map_err(|error| match error {
        DatabaseError::DatabaseAlreadyOpen => {
            let dir = file.parent().unwrap_or(file).to_owned();
            open::Error::Locked { dir }
        }
        DatabaseError::Storage(StorageError::Io(io)) if io.kind() == ErrorKind::InvalidData => {
            foreign()
        }
        other => explain(other.into()),
    })?;
    let read = database.begin_read().map_err(|it| explain(it.into()))?;
    let meta = read.open_table(META).map_err(|it| match it {
        TableError::Storage(storage) => explain(storage.into()),
        _ => foreign(),
    })?;
    let found = meta.get(tables::FORMAT).map_err(|it| explain(it.into()))?;
    let found = found.ok_or_else(foreign)?.value();
    if found > tables::FORMAT_KNOWN {
        let known = open::FORMAT_KNOWN;
        return Err(open::Error::NewerFormat { file: file.to_owned(), found, known });
    }
    Ok(database)
}

/// Writes all that is in the old file to a new log, and syncs it.
fn copy(database: &Database, dir: &Path) -> Result<(), Error> {
    let write = |source| Error::Write { source };
    let (oldest, revision) = bounds(database).map_err(read_error)?;
    let (ceiling, time, leases) = (revision, WallTime(0), Vec::new());
    // The old format kept none: it begins with what is copied.
    let mut hash = HistoryHash::default();
    let end = Checkpoint { revision, oldest, ceiling, time, hash, leases };
    let salt = stdx::Random::from_os().next_u64();
    let mut rebuild = Rebuild::begin(dir, end, salt).map_err(write)?;
    let mut add = |commit: Option<Gathered>| match commit {
        Some(it) => {
            let mut body = Vec::new();
            hash = render_migrated(&mut body, &it.commit, &it.previous, hash);
            rebuild.add(body).map_err(write)
        }
        None => Ok(()),
    };
    let read = database.begin_read().map_err(|it| read_error(it.into()))?;
    let log = read.open_table(LOG).map_err(|it| read_error(it.into()))?;
    let mut gathered: Option<Gathered> = None;
    for row in log.iter().map_err(|it| read_error(it.into()))? {
        let (position, bytes) = row.map_err(|it| read_error(it.into()))?;
        let revision = Revision(position.value().0);
        let record = Record::parse(revision, bytes.value());
        let record = record.ok_or_else(|| read_error(record::unreadable(revision)))?;
        if gathered.as_ref().is_some_and(|it| it.commit.revision != revision) {
            add(gathered.take())?;
        }
        gathered.get_or_insert_with(|| Gathered::new(revision)).add(record);
    }
    add(gathered)?;
    rebuild.finish().map_err(write)
}

/// One transaction of the old file.
struct Gathered {
    commit: Commit,
    /// When the key of each event was written before.
    previous: Vec<Option<Revision>>,
}

impl Gathered {
    fn new(revision: Revision) -> Self {
        let (events, leases) = (Vec::new(), Vec::new());
        let commit = Commit { revision, events, leases, lacks_previous: true };
        Self { commit, previous: Vec::new() }
    }

    fn add(&mut self, record: Record) {
        let Record { key, value, previous } = record;
        let revision = self.commit.revision;
        self.commit.events.push(crate::Event { key, value, previous: None, revision });
        self.previous.push(previous);
    }
}

fn read_error(source: redb::Error) -> Error {
    Error::Read { source: Box::new(source) }
}

/// The oldest and the newest revision.
fn bounds(database: &Database) -> Result<(Revision, Revision), redb::Error> {
    let read = database.begin_read()?;
    let meta = read.open_table(META)?;
    let found = meta.get(tables::COMPACTED)?;
    let missing = || redb::Error::Corrupted("the oldest revision is missing".to_owned());
    let oldest = Revision(found.ok_or_else(missing)?.value());
    // The last transaction may be a deletion whose record is compacted away already.
    let last = read.open_table(LOG)?.last()?.map_or(oldest, |(it, _)| Revision(it.value().0));
    Ok((oldest, last.max(oldest)))
}
