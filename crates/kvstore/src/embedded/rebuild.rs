//! Writing a whole log anew, from a snapshot or from an older format, into a directory that nobody
//! uses yet.

use std::io;
use std::path::Path;
use std::sync::Arc;

use super::disk::Directory;
use super::log::{self, Kind, Log};
use super::record::Checkpoint;

/// Bodies that are appended with one write.
const BATCH_BYTES: usize = 4 << 20;

pub(super) struct Rebuild {
    log: Log,
    /// What the store is at the end. Segments on the way begin with it too: opening takes the last
    /// one's word.
    end: Checkpoint,
    bodies: Vec<Vec<u8>>,
    bytes: usize,
}

impl Rebuild {
    pub(super) fn begin(dir: &Path, end: Checkpoint, salt: u64) -> io::Result<Self> {
        let disk = Directory::open(dir)?;
        let opened = Log::open(Arc::new(disk), &log::Options::new(salt), &mut |_| Ok(()));
        let mut log = opened.map_err(io::Error::other)?;
        log.rotate(&end.render())?;
        Ok(Self { log, end, bodies: Vec::new(), bytes: 0 })
    }

    /// Adds a commit's body. In the order of revisions.
    pub(super) fn add(&mut self, body: Vec<u8>) -> io::Result<()> {
        self.bytes += body.len();
        self.bodies.push(body);
        if self.bytes >= BATCH_BYTES { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.log.is_full(self.bodies.len(), self.bytes) {
            self.log.rotate(&self.end.render())?;
        }
        let frames: Vec<_> = self.bodies.iter().map(|it| (Kind::Commit, it.as_slice())).collect();
        self.log.append(&frames)?;
        self.bodies.clear();
        self.bytes = 0;
        Ok(())
    }

    /// Complete and synced.
    pub(super) fn finish(mut self) -> io::Result<()> {
        self.flush()?;
        self.log.close()
    }
}
