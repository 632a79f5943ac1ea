//! Opening: the directory of a store, its lock and format, what to do about an older one, and why
//! it cannot be used.
//!
//! ```text
//! DIR/LOCK    locked while the store is open
//! DIR/FORMAT  one line: `xebec-store 2`; written when `log` is complete
//! DIR/log/    the segments
//! ```

use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::disk::{Directory, Disk};
use super::log::{self, Damage, Kind, Log, OpenError};
use super::migrate;
use super::record::{Checkpoint, HistoryHash, WallTime, parse_commit};
use super::replay::{Replay, Replayed};
use crate::Revision;

const LOCK: &str = "LOCK";
const FORMAT: &str = "FORMAT";
const FORMAT_UNFINISHED: &str = "FORMAT.new";
const FORMAT_PREFIX: &str = "xebec-store ";
pub(super) const FORMAT_KNOWN: u64 = 2;
pub(super) const LOG: &str = "log";

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("cannot create the store in {}", dir.display())]
    Create {
        dir: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("the store in {} is in use by another process", dir.display())]
    Locked { dir: PathBuf },
    #[error("{} is not a store of this program", file.display())]
    Foreign { file: PathBuf },
    #[error("there is no store in {}", dir.display())]
    Missing { dir: PathBuf },
    #[error("{} has format {found}; this program knows formats up to {known}", file.display())]
    NewerFormat { file: PathBuf, found: u64, known: u64 },
    #[error("the store in {} is damaged after revision {}{}", dir.display(), after.0, until(*before))]
    Damaged {
        dir: PathBuf,
        /// The last revision before the damage, and the first after it, if there is one.
        after: Revision,
        before: Option<Revision>,
        #[source]
        damage: Box<Damage>,
    },
    #[error("cannot read the store in {}", dir.display())]
    Read {
        dir: PathBuf,
        #[source]
        source: OpenError,
    },
    #[error("cannot begin the store's log in {}", dir.display())]
    Begin {
        dir: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("cannot migrate {} to format {FORMAT_KNOWN}", file.display())]
    Migrate {
        file: PathBuf,
        #[source]
        source: migrate::Error,
    },
    #[error("cannot start the store's threads")]
    StartThreads {
        #[source]
        source: io::Error,
    },
}

fn until(before: Option<Revision>) -> String {
    before.map_or_else(String::new, |it| format!(" and before revision {}", it.0))
}

/// A directory that belongs to this process, until it is dropped.
pub(super) struct Site {
    pub(super) dir: PathBuf,
    /// `None`: nobody ever opened it.
    _lock: Option<File>,
}

impl Site {
    /// Locks the directory, which is created if it does not exist, and brings what is in it to the
    /// current format.
    pub(super) fn open(dir: &Path) -> Result<Self, Error> {
        let create = |source| Error::Create { dir: dir.to_owned(), source };
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(dir).map_err(create)?;
        let mut options = OpenOptions::new();
        options.create(true).truncate(false).write(true).mode(0o600);
        let lock = options.open(dir.join(LOCK));
        let site = Self { dir: dir.to_owned(), _lock: Some(locked(dir, lock.map_err(create)?)?) };
        match site.format()? {
            Some(_) => migrate::remove_old(dir).map_err(create)?,
            None if migrate::is_old(dir) => migrate::migrate(dir)?,
            None => {}
        }
        Ok(site)
    }

    /// Locks a store that must exist in the current format, to look at it: nothing is created or
    /// changed.
    pub(super) fn inspect(dir: &Path) -> Result<Self, Error> {
        let lock = match File::open(dir.join(LOCK)) {
            Ok(lock) => Some(locked(dir, lock)?),
            Err(error) if error.kind() == ErrorKind::NotFound => None,
            Err(source) => return Err(Error::Create { dir: dir.to_owned(), source }),
        };
        let site = Self { dir: dir.to_owned(), _lock: lock };
        site.format()?.ok_or_else(|| Error::Missing { dir: dir.to_owned() })?;
        Ok(site)
    }

    pub(super) fn log(&self) -> PathBuf {
        self.dir.join(LOG)
    }

    pub(super) fn disk(&self) -> Result<Arc<dyn Disk>, Error> {
        let create = |source| Error::Create { dir: self.dir.clone(), source };
        Ok(Arc::new(Directory::open(&self.log()).map_err(create)?))
    }

    /// The format that the directory says it has. `None`: nothing is complete in it.
    fn format(&self) -> Result<Option<u64>, Error> {
        let file = self.dir.join(FORMAT);
        let read = |source| Error::Create { dir: self.dir.clone(), source };
        let mut content = Vec::new();
        match File::open(&file) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(read(error)),
            Ok(opened) => {
                // More than the line is not ours.
                opened.take(256).read_to_end(&mut content).map_err(read)?;
            }
        }
        let found = parse_format(&content);
        let found = found.ok_or_else(|| Error::Foreign { file: file.clone() })?;
        if found > FORMAT_KNOWN {
            return Err(Error::NewerFormat { file, found, known: FORMAT_KNOWN });
        }
        Ok(Some(found))
    }

    /// Says that the log is complete.
    pub(super) fn mark_format(&self) -> Result<(), Error> {
        if self.format()?.is_none() {
            write_format(&self.dir)
                .map_err(|source| Error::Create { dir: self.dir.clone(), source })?;
        }
        Ok(())
    }
}

fn locked(dir: &Path, lock: File) -> Result<File, Error> {
    if stdx::lock_file(&lock) { Ok(lock) } else { Err(Error::Locked { dir: dir.to_owned() }) }
}

/// The number in the line that names a format.
pub(super) fn parse_format(content: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(content).ok()?;
    text.strip_prefix(FORMAT_PREFIX)?.trim_end().parse().ok()
}

pub(super) fn render_format(format: u64) -> String {
    format!("{FORMAT_PREFIX}{format}\n")
}

pub(super) fn write_format(dir: &Path) -> io::Result<()> {
    let unfinished = dir.join(FORMAT_UNFINISHED);
    let mut options = OpenOptions::new();
    let mut file = options.write(true).create(true).truncate(true).mode(0o600).open(&unfinished)?;
    file.write_all(render_format(FORMAT_KNOWN).as_bytes())?;
    file.sync_all()?;
    std::fs::rename(&unfinished, dir.join(FORMAT))?;
    sync_directory(dir)
}

pub(super) fn sync_directory(dir: &Path) -> io::Result<()> {
    File::open(dir)?.sync_all()
}

/// Reads the log and, if it is empty, begins it.
pub(super) fn open_log(
    dir: &Path,
    disk: Arc<dyn Disk>,
    options: &log::Options,
    value_bytes: usize,
) -> Result<(Log, Replayed), Error> {
    let (mut log, replay) = read_log(dir, disk, options, value_bytes)?;
    let replayed = replay.finish();
    if log.is_empty() {
        let checkpoint = Checkpoint {
            revision: Revision::EMPTY,
            oldest: Revision::EMPTY,
            ceiling: Revision::EMPTY,
            time: WallTime(0),
            hash: HistoryHash::default(),
            leases: Vec::new(),
        };
        let begun = log.rotate(&checkpoint.render());
        begun.map_err(|source| Error::Begin { dir: dir.to_owned(), source })?;
    }
    Ok((log, replayed))
}

pub(super) fn read_log(
    dir: &Path,
    disk: Arc<dyn Disk>,
    options: &log::Options,
    value_bytes: usize,
) -> Result<(Log, Replay), Error> {
    let mut replay = Replay::new(value_bytes);
    let opened = Log::open(disk, options, &mut |frame| replay.visit(frame));
    let log = opened.map_err(|error| explain(dir, error, replay.revision()))?;
    Ok((log, replay))
}

pub(super) fn explain(dir: &Path, error: OpenError, after: Revision) -> Error {
    match error {
        OpenError::Damaged(damage) => {
            let next = damage.next.as_ref().filter(|it| it.0 == Kind::Commit);
            let before = next.and_then(|it| parse_commit(&it.1).map(|it| it.revision));
            let damage = Box::new(damage);
            Error::Damaged { dir: dir.to_owned(), after, before, damage }
        }
        OpenError::Newer { file, version } => {
            let (found, known) = (u64::from(version), FORMAT_KNOWN);
            Error::NewerFormat { file: dir.join(LOG).join(file), found, known }
        }
        source @ OpenError::Io { .. } => Error::Read { dir: dir.to_owned(), source },
    }
}
