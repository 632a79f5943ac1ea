//! Format 1, a redb file, to the log. The old file is kept until the new log is complete and in place; a crash anywhere leaves
//! either the old store, which is migrated again, or the new one.

mod record;
mod tables;
#[cfg(test)]
mod tests;

use std::io::{self, ErrorKind};
use std::path::Path;
use std::sync::Arc;

use redb::{
    Database, DatabaseError, ReadableDatabase as _, ReadableTable as _, StorageError, TableError,
};

use self::record::Record;
use self::tables::{LOG, META};
use super::disk::Directory;
use super::log::{self, Kind, Log};
use super::open::{self, sync_directory, write_format};
use super::record::{Checkpoint, WallTime, render_revision};
use crate::Revision;
use crate::state::Commit;

const FILE: &str = "store.redb";
const FILE_UNFINISHED: &str = "store.redb.new";
const LOG_UNFINISHED: &str = "log.new";
/// What redb may keep in memory: the file is read once, in order.
const CACHE_BYTES: usize = 8 << 20;
/// Bodies that are appended with one write.
const BATCH_BYTES: usize = 4 << 20;

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
    #[error("cannot begin the new log")]
    Begin {
        #[source]
        source: log::OpenError,
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
    let disk = Directory::open(dir).map_err(write)?;
    // No salt is needed against values that pretend to be frames: these are all known.
    let options = log::Options::new(0x7865_6265_6331);
    let opened = Log::open(Arc::new(disk), &options, &mut |_| Ok(()));
    let mut copy = Copy {
        log: opened.map_err(|source| Error::Begin { source })?,
        oldest: oldest(database).map_err(read_error)?,
        revision: Revision::EMPTY,
        bodies: Vec::new(),
        bytes: 0,
    };
    copy.rotate().map_err(write)?;
    let read = database.begin_read().map_err(|it| read_error(it.into()))?;
    let log = read.open_table(LOG).map_err(|it| read_error(it.into()))?;
    let mut commit: Option<Commit> = None;
    let mut previous = Vec::new();
    for row in log.iter().map_err(|it| read_error(it.into()))? {
        let (position, bytes) = row.map_err(|it| read_error(it.into()))?;
        let revision = Revision(position.value().0);
        let record = Record::parse(revision, bytes.value());
        let record = record.ok_or_else(|| read_error(record::unreadable(revision)))?;
        if commit.as_ref().is_some_and(|it| it.revision != revision)
            && let Some(done) = commit.take()
        {
            copy.add(&done, &previous).map_err(write)?;
            previous.clear();
        }
        let commit = commit.get_or_insert(Commit { revision, events: vec![], leases: vec![] });
        previous.push(record.previous);
        commit.events.push(crate::Event {
            key: record.key,
            value: record.value,
            previous: None,
            revision,
        });
    }
    if let Some(done) = commit {
        copy.add(&done, &previous).map_err(write)?;
    }
    copy.finish().map_err(write)
}

fn read_error(source: redb::Error) -> Error {
    Error::Read { source: Box::new(source) }
}

fn oldest(database: &Database) -> Result<Revision, redb::Error> {
    let meta = database.begin_read()?.open_table(META)?;
    let found = meta.get(tables::COMPACTED)?;
    let missing = || redb::Error::Corrupted("the oldest revision is missing".to_owned());
    Ok(Revision(found.ok_or_else(missing)?.value()))
}

struct Copy {
    log: Log,
    oldest: Revision,
    revision: Revision,
    bodies: Vec<Vec<u8>>,
    bytes: usize,
}

impl Copy {
    fn add(&mut self, commit: &Commit, previous: &[Option<Revision>]) -> io::Result<()> {
        let mut body = Vec::new();
        super::record::render_migrated(&mut body, commit, previous);
        self.revision = commit.revision;
        self.bytes += body.len();
        self.bodies.push(body);
        if self.bytes >= BATCH_BYTES { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.log.is_full(self.bodies.len(), self.bytes) {
            self.rotate()?;
        }
        let frames: Vec<_> = self.bodies.iter().map(|it| (Kind::Commit, it.as_slice())).collect();
        self.log.append(&frames)?;
        self.bodies.clear();
        self.bytes = 0;
        Ok(())
    }

    fn rotate(&mut self) -> io::Result<()> {
        let (revision, time) = (self.revision, WallTime(0));
        let (oldest, ceiling) = (self.oldest.min(revision), Revision::EMPTY);
        let checkpoint = Checkpoint { revision, oldest, ceiling, time, leases: Vec::new() };
        self.log.rotate(&checkpoint.render())
    }

    fn finish(mut self) -> io::Result<()> {
        self.flush()?;
        self.log.append(&[(Kind::Compacted, &render_revision(self.oldest))])?;
        self.log.close()
    }
}
