//! A snapshot becomes a store: verified to its end before anything is written, made aside, and
//! renamed into place.

use std::io::{self, Read};
use std::path::{Path, PathBuf};

use super::Error;
use super::file::{Reader, Record};
use crate::Revision;
use crate::embedded::open::{LOG, sync_directory, write_format};
use crate::embedded::rebuild::Rebuild;
use crate::embedded::record::{Checkpoint, HistoryHash, NUMBER_MAX, parse_commit};

/// What a snapshot is restored as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Restore {
    /// A revision that the snapshot's history has: the store is then as it was at that moment, but
    /// with the leases that it has in the snapshot. `None`: as it was last.
    pub at: Option<Revision>,
    /// The store goes on so far after the snapshot's newest revision, with all before compacted:
    /// what the old store gave out since, and what clients remember of it, is refused and never
    /// means anything else. 0 goes on where the state was, history included, and gives such
    /// revisions again.
    pub bump: u64,
}

impl Restore {
    /// More than a cluster writes between a snapshot and the day it is needed: a year at 30 writes
    /// per second.
    pub const BUMP_DEFAULT: u64 = 1_000_000_000;
}

impl Default for Restore {
    fn default() -> Self {
        Self { at: None, bump: Self::BUMP_DEFAULT }
    }
}

/// What was made of a snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Restored {
    /// The revision of the old store that it is the state of.
    pub at: Revision,
    /// The revision of the new store.
    pub revision: Revision,
}

/// No store begins where revisions are nearly used up.
const REVISION_MAX: u64 = NUMBER_MAX / 2;

/// Makes a store in `dir`, which must be empty or not exist, from a snapshot.
pub fn restore(snapshot: &Path, dir: &Path, wish: Restore) -> Result<Restored, Error> {
    let end = verify(snapshot, Reader::open(snapshot)?)?;
    let at = wish.at.unwrap_or(end.revision);
    if at < end.oldest || at > end.revision {
        let (oldest, newest) = (end.oldest, end.revision);
        return Err(Error::OutOfHistory { asked: at, oldest, newest });
    }
    let end = wish.end(end, at)?;
    let revision = end.revision;
    check_empty(dir)?;
    let write = |source| Error::Write { path: dir.to_owned(), source };
    let unfinished = unfinished(dir);
    match std::fs::remove_dir_all(&unfinished) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(write(error)),
        _ => {}
    }
    std::fs::create_dir_all(&unfinished).map_err(write)?;
    let copied = copy(snapshot, &unfinished, (at, end));
    if copied.is_err() {
        let _ = std::fs::remove_dir_all(&unfinished);
    }
    copied?;
    let parent =
        dir.parent().filter(|it| !it.as_os_str().is_empty()).unwrap_or_else(|| Path::new("."));
    write_format(&unfinished)
        .and_then(|()| std::fs::rename(&unfinished, dir))
        .and_then(|()| sync_directory(parent))
        .map_err(write)?;
    Ok(Restored { at, revision })
}

impl Restore {
    /// What the new store is, made of what the snapshot says and the revision that is restored.
    fn end(self, snapshot: Checkpoint, at: Revision) -> Result<Checkpoint, Error> {
        let newest = snapshot.revision;
        // The last transaction that is restored has the right one.
        let hash = if at == newest { snapshot.hash } else { HistoryHash::default() };
        let (revision, oldest) = match self.bump {
            0 => (at, snapshot.oldest),
            bump => {
                let bumped = newest.0.checked_add(bump).filter(|it| *it <= REVISION_MAX);
                let bumped = bumped.ok_or(Error::BumpTooFar { bump, newest, max: REVISION_MAX })?;
                (Revision(bumped), Revision(bumped))
            }
        };
        Ok(Checkpoint { revision, oldest, ceiling: revision, hash, ..snapshot })
    }
}

/// Beside the target, so that it can be renamed.
fn unfinished(dir: &Path) -> PathBuf {
    let mut name = dir.file_name().unwrap_or_default().to_owned();
    name.push(".restoring");
    dir.with_file_name(name)
}

fn check_empty(dir: &Path) -> Result<(), Error> {
    let is_empty = match std::fs::read_dir(dir) {
        Ok(mut entries) => entries.next().is_none(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => true,
        Err(source) => return Err(Error::Write { path: dir.to_owned(), source }),
    };
    if is_empty { Ok(()) } else { Err(Error::NotEmpty { dir: dir.to_owned() }) }
}

/// Verifies all of a snapshot; returns the oldest and the newest revision that it can be restored
/// at.
pub fn check_snapshot(snapshot: &Path) -> Result<(Revision, Revision), Error> {
    let checkpoint = verify(snapshot, Reader::open(snapshot)?)?;
    Ok((checkpoint.oldest, checkpoint.revision))
}

/// The same of bytes that are in no file.
pub(in crate::embedded) fn check_bytes(bytes: &[u8]) -> Result<(), Error> {
    let nowhere = Path::new("");
    verify(nowhere, Reader::new(nowhere, bytes)?).map(drop)
}

/// Reads all of it. What it says of itself.
fn verify(snapshot: &Path, mut reader: Reader<impl Read>) -> Result<Checkpoint, Error> {
    let damaged = |what| Error::Damaged { path: snapshot.to_owned(), what };
    let Some(Record::Checkpoint(checkpoint)) = reader.next()? else {
        return Err(damaged("it does not begin with what it is"));
    };
    let mut last = Revision(0);
    while let Some(record) = reader.next()? {
        let Record::Commit(body) = record else { return Err(damaged("it begins twice")) };
        let commit = parse_commit(&body).ok_or_else(|| damaged("a transaction is unreadable"))?;
        if commit.revision <= last || commit.revision > checkpoint.revision {
            return Err(damaged("its revisions are not in order"));
        }
        last = commit.revision;
    }
    Ok(checkpoint)
}

/// What the snapshot has up to `through`.
fn copy(snapshot: &Path, dir: &Path, (through, end): (Revision, Checkpoint)) -> Result<(), Error> {
    let write = |source| Error::Write { path: dir.to_owned(), source };
    let salt = stdx::Random::from_os().next_u64();
    let mut rebuild = Rebuild::begin(&dir.join(LOG), end, salt).map_err(write)?;
    let mut reader = Reader::open(snapshot)?;
    while let Some(record) = reader.next()? {
        if let Record::Commit(body) = record
            && parse_commit(&body).is_some_and(|it| it.revision <= through)
        {
            rebuild.add(body).map_err(write)?;
        }
    }
    rebuild.finish().map_err(write)
}
