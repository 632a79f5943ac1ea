//! Opening: finds or makes the database file of a directory, says clearly why it cannot be used, and
//! reads the current state from the log.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use redb::{
    Database, DatabaseError, ReadableDatabase as _, ReadableTable as _, StorageError, TableError,
};

use super::record::{Record, unreadable};
use super::tables::{self, LOG, META};
use crate::state::State;
use crate::{KeyValue, Revision};

const FILE_NAME: &str = "store.redb";
const FILE_NAME_UNFINISHED: &str = "store.redb.new";

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("cannot create the store in {}", dir.display())]
    Create {
        dir: PathBuf,
        #[source]
        source: std::io::Error,
    },
    #[error("the store in {} is in use by another process", dir.display())]
    Locked { dir: PathBuf },
    #[error("{} is not a store of this program", file.display())]
    Foreign { file: PathBuf },
    #[error("{} has format {found}; this program knows formats up to {known}", file.display())]
    NewerFormat { file: PathBuf, found: u64, known: u64 },
    #[error("{} is damaged: {what}", file.display())]
    Corrupt { file: PathBuf, what: String },
    #[error("cannot open the store's file {}", file.display())]
    Open {
        file: PathBuf,
        #[source]
        source: redb::Error,
    },
    #[error("cannot start the store's writer thread")]
    StartWriter {
        #[source]
        source: std::io::Error,
    },
}

/// How the database is opened; tests put a failing disk here.
pub(super) type Opener =
    Box<dyn Fn(&redb::Builder, &Path) -> Result<Database, DatabaseError> + Send + Sync>;

/// Where the database is and how to open it: also used to open it again after a failed write.
pub(super) struct Site {
    pub(super) dir: PathBuf,
    pub(super) cache_bytes: usize,
    pub(super) opener: Opener,
}

/// What the file says on opening.
pub(super) struct Restored {
    pub(super) state: State,
    pub(super) oldest: Revision,
    /// Compaction has removed what it should up to here.
    pub(super) swept: Revision,
}

pub(super) fn open_file(builder: &redb::Builder, path: &Path) -> Result<Database, DatabaseError> {
    builder.create(path)
}

impl Site {
    fn file(&self) -> PathBuf {
        self.dir.join(FILE_NAME)
    }

    /// Opens the database, and makes an empty one if there is none.
    pub(super) fn open(&self) -> Result<Database, Error> {
        std::fs::create_dir_all(&self.dir).map_err(|it| self.explain_create(it))?;
        if !self.file().exists() {
            self.create()?;
        }
        let database = self.open_path(&self.file())?;
        self.check_format(&database)?;
        Ok(database)
    }

    fn open_path(&self, path: &Path) -> Result<Database, Error> {
        let mut builder = redb::Builder::new();
        builder.set_cache_size(self.cache_bytes);
        (self.opener)(&builder, path).map_err(|it| self.explain_open(it))
    }

    /// Makes an empty store under another name first: a crash on the way must not leave a half-made file
    /// that the next start takes for a foreign one.
    fn create(&self) -> Result<(), Error> {
        let dir = File::open(&self.dir).map_err(|it| self.explain_create(it))?;
        dir.try_lock().map_err(|_| Error::Locked { dir: self.dir.clone() })?;
        if self.file().exists() {
            return Ok(());
        }
        let unfinished = self.dir.join(FILE_NAME_UNFINISHED);
        match std::fs::remove_file(&unfinished) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                return Err(self.explain_create(error));
            }
            _ => {}
        }
        let database = self.open_path(&unfinished)?;
        initialize(&database).map_err(|it| self.explain(it))?;
        drop(database);
        std::fs::rename(&unfinished, self.file())
            .and_then(|()| dir.sync_all())
            .map_err(|it| self.explain_create(it))
    }

    fn explain_create(&self, source: std::io::Error) -> Error {
        Error::Create { dir: self.dir.clone(), source }
    }

    fn explain_open(&self, error: DatabaseError) -> Error {
        match error {
            DatabaseError::DatabaseAlreadyOpen => Error::Locked { dir: self.dir.clone() },
            DatabaseError::Storage(StorageError::Io(io)) if io.kind() == ErrorKind::InvalidData => {
                Error::Foreign { file: self.file() }
            }
            other => self.explain(other),
        }
    }

    fn explain(&self, error: impl Into<redb::Error>) -> Error {
        match error.into() {
            redb::Error::Corrupted(what) => Error::Corrupt { file: self.file(), what },
            source => Error::Open { file: self.file(), source },
        }
    }

    fn check_format(&self, database: &Database) -> Result<(), Error> {
        let foreign = || Error::Foreign { file: self.file() };
        let read = database.begin_read().map_err(|it| self.explain(it))?;
        let meta = read.open_table(META).map_err(|it| match it {
            TableError::Storage(storage) => self.explain(storage),
            _ => foreign(),
        })?;
        let found = meta.get(tables::FORMAT).map_err(|it| self.explain(it))?;
        let found = found.ok_or_else(foreign)?.value();
        if found > tables::FORMAT_KNOWN {
            let known = tables::FORMAT_KNOWN;
            return Err(Error::NewerFormat { file: self.file(), found, known });
        }
        Ok(())
    }

    pub(super) fn restore(&self, database: &Database) -> Result<Restored, Error> {
        scan(database).map_err(|it| self.explain(it))
    }
}

fn initialize(database: &Database) -> Result<(), redb::Error> {
    let txn = database.begin_write()?;
    {
        txn.open_table(LOG)?;
        let mut meta = txn.open_table(META)?;
        meta.insert(tables::FORMAT, tables::FORMAT_KNOWN)?;
        meta.insert(tables::COMPACTED, Revision::EMPTY.0)?;
        meta.insert(tables::SWEPT, Revision::EMPTY.0)?;
    }
    txn.commit()?;
    Ok(())
}

/// Reads the whole log: what compaction keeps is the current state and the history.
fn scan(database: &Database) -> Result<Restored, redb::Error> {
    let read = database.begin_read()?;
    let meta = read.open_table(META)?;
    let mark = |name: &str| -> Result<Revision, redb::Error> {
        let found = meta.get(name)?;
        let missing = || redb::Error::Corrupted(format!("the entry {name:?} is missing"));
        Ok(Revision(found.ok_or_else(missing)?.value()))
    };
    let (oldest, swept) = (mark(tables::COMPACTED)?, mark(tables::SWEPT)?);
    let log = read.open_table(LOG)?;
    let mut keys = BTreeMap::<Bytes, KeyValue>::new();
    // The last transaction may be a deletion whose record is compacted away already.
    let mut revision = oldest;
    for row in log.iter()? {
        let (position, bytes) = row?;
        let at = Revision(position.value().0);
        let record = Record::parse(at, bytes.value()).ok_or_else(|| unreadable(at))?;
        revision = revision.max(at);
        match record.value {
            Some(entry) => drop(keys.insert(record.key, entry)),
            None => drop(keys.remove(&record.key)),
        }
    }
    Ok(Restored { state: State::restored(keys, [], revision), oldest, swept })
}
