//! The whole store in one file, history included: written beside a running store at one revision,
//! and made a store again, at that revision or at an earlier one that its history has, with
//! revisions that no client of the old store has seen.

mod file;
mod restore;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub(super) use self::file::{END, MAGIC};
pub(super) use self::restore::check_bytes;
pub use self::restore::{Restore, Restored, check_snapshot, restore};
use super::Embedded;
use super::core::Core;
use super::open::sync_directory;
use super::record::{Checkpoint, WallTime, parse_commit, render_kept};
use crate::Revision;

/// Commits that are looked up at once.
const CHUNK: usize = 256;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("cannot write {}", path.display())]
    Write {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("cannot read the store's history")]
    History {
        #[source]
        source: crate::Error,
    },
    #[error("cannot read {}", path.display())]
    Read {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("{} is no snapshot of a store", path.display())]
    Foreign { path: PathBuf },
    #[error("{} is a snapshot of a newer version", path.display())]
    Newer { path: PathBuf },
    #[error("{} is damaged: {what}", path.display())]
    Damaged { path: PathBuf, what: &'static str },
    #[error(
        "the snapshot has revisions {} to {}, so it cannot be restored at revision {}",
        oldest.0, newest.0, asked.0
    )]
    OutOfHistory { asked: Revision, oldest: Revision, newest: Revision },
    #[error(
        "{bump} revisions after {}, the snapshot's newest, is more than {max}: there would be none left to give",
        newest.0
    )]
    BumpTooFar { bump: u64, newest: Revision, max: u64 },
    #[error("{} is not empty", dir.display())]
    NotEmpty { dir: PathBuf },
}

impl Embedded {
    /// Writes the store as it is now to `path`, while it goes on being written; returns the
    /// revision. The file appears when it is complete.
    pub async fn snapshot(&self, path: &Path) -> Result<Revision, Error> {
        let (core, path) = (self.core.clone(), path.to_owned());
        let written = tokio::task::spawn_blocking(move || core.snapshot(&path));
        written.await.unwrap_or(Err(Error::History { source: crate::Error::Closed }))
    }
}

impl Core {
    fn snapshot(&self, path: &Path) -> Result<Revision, Error> {
        let mut unfinished = path.as_os_str().to_owned();
        unfinished.push(".new");
        let unfinished = PathBuf::from(unfinished);
        let write = |source| Error::Write { path: path.to_owned(), source };
        let written = self.write_snapshot(&unfinished, path);
        if written.is_err() {
            let _ = std::fs::remove_file(&unfinished);
        }
        let revision = written?;
        let parent = path.parent().filter(|it| !it.as_os_str().is_empty());
        std::fs::rename(&unfinished, path)
            .and_then(|()| sync_directory(parent.unwrap_or_else(|| Path::new("."))))
            .map_err(write)?;
        Ok(revision)
    }

    fn write_snapshot(&self, unfinished: &Path, path: &Path) -> Result<Revision, Error> {
        let write = |source| Error::Write { path: path.to_owned(), source };
        // Nothing that is needed now is forgotten before all of it is written.
        let _kept = self.keep();
        let checkpoint = {
            let present = self.present();
            let revision = present.state.revision();
            let leases = present.state.leases().map(|(id, lease)| (id, lease.ttl)).collect();
            let (oldest, time) = (self.hub.oldest(), WallTime(0));
            let hash = present.hash;
            Checkpoint { revision, oldest, ceiling: revision, time, hash, leases }
        };
        let revision = checkpoint.revision;
        let mut writer = file::Writer::create(unfinished).map_err(write)?;
        writer.checkpoint(&checkpoint).map_err(write)?;
        let mut from = Revision(0);
        loop {
            let chunk: Vec<Revision> = {
                let present = self.present();
                present.index.commits(from, revision).take(CHUNK).map(|(it, _)| it).collect()
            };
            for it in &chunk {
                let body = self.needed_body(*it).map_err(|source| Error::History { source })?;
                writer.commit(&body).map_err(write)?;
            }
            match chunk.last() {
                Some(last) => from = last.next(),
                None => break,
            }
        }
        writer.finish().map_err(write)?;
        Ok(revision)
    }

    /// A commit with those of its events that are needed: a needless one would come to life without
    /// what superseded it.
    fn needed_body(&self, revision: Revision) -> Result<Vec<u8>, crate::Error> {
        let unreadable = || {
            let source = io::Error::other(format!("revision {} is unreadable", revision.0));
            crate::Error::Io { doing: "reading history", source: Arc::new(source) }
        };
        let body = self.commit_body(revision)?.ok_or_else(unreadable)?;
        let commit = parse_commit(&body).ok_or_else(unreadable)?;
        let present = self.present();
        let needed = commit
            .events
            .iter()
            .filter(|event| present.index.needs(&present.state, revision, event));
        let needed: Vec<_> = needed.copied().collect();
        let mut body = Vec::with_capacity(body.len());
        render_kept(&mut body, &commit, &needed);
        Ok(body)
    }
}
