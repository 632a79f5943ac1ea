//! A snapshot becomes a store: verified to its end before anything is written, made aside, and renamed into place.

use std::io;
use std::path::{Path, PathBuf};

use super::Error;
use super::file::{Reader, Record};
use crate::Revision;
use crate::embedded::open::{LOG, sync_directory, write_format};
use crate::embedded::rebuild::Rebuild;
use crate::embedded::record::{Checkpoint, HistoryHash, parse_commit};

/// Makes a store in `dir`, which must be empty or not exist, from a snapshot; returns its revision. `at` is a revision that
/// the snapshot's history has: the store is then as it was at that moment, but with the leases that it has in the snapshot.
pub fn restore(snapshot: &Path, dir: &Path, at: Option<Revision>) -> Result<Revision, Error> {
    let mut end = verify(snapshot)?;
    if let Some(at) = at {
        if at < end.oldest || at > end.revision {
            let (oldest, newest) = (end.oldest, end.revision);
            return Err(Error::OutOfHistory { asked: at, oldest, newest });
        }
        end.revision = at;
        // The last transaction that is restored has it.
        end.hash = HistoryHash::default();
        end.ceiling = at;
    }
    check_empty(dir)?;
    let write = |source| Error::Write { path: dir.to_owned(), source };
    let unfinished = unfinished(dir);
    match std::fs::remove_dir_all(&unfinished) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(write(error)),
        _ => {}
    }
    std::fs::create_dir_all(&unfinished).map_err(write)?;
    let revision = end.revision;
    let copied = copy(snapshot, &unfinished, end);
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
    Ok(revision)
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

/// Verifies all of a snapshot; returns the oldest and the newest revision that it can be restored at.
pub fn check_snapshot(snapshot: &Path) -> Result<(Revision, Revision), Error> {
    let checkpoint = verify(snapshot)?;
    Ok((checkpoint.oldest, checkpoint.revision))
}

/// Reads all of it. What it says of itself.
fn verify(snapshot: &Path) -> Result<Checkpoint, Error> {
    let damaged = |what| Error::Damaged { path: snapshot.to_owned(), what };
    let mut reader = Reader::open(snapshot)?;
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

fn copy(snapshot: &Path, dir: &Path, end: Checkpoint) -> Result<(), Error> {
    let write = |source| Error::Write { path: dir.to_owned(), source };
    let through = end.revision;
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
