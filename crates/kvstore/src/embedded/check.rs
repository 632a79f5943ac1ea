//! Looking at a store that nobody has open: verifies every byte of it, and changes none.

use std::io;
use std::path::Path;
use std::sync::Arc;

use super::disk::{Directory, Disk, File};
use super::log;
use super::open::{Error, Site, read_log};
use super::replay::Replayed;
use crate::{Revision, Status};

/// What a store has that was found to be sound.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    pub revision: Revision,
    pub oldest: Revision,
    pub n_keys: u64,
    pub n_leases: u64,
    pub n_segments: u64,
    pub n_frames: u64,
    pub bytes: u64,
    pub bytes_current: u64,
    /// Stands for the whole history: what `Status` tells of a store that is open.
    pub hash: u64,
    /// Whether it was closed, or its process was killed.
    pub was_closed: bool,
    /// What a crash left of writes that were never acknowledged: opening cuts it off.
    pub torn: Option<String>,
}

/// Verifies everything that is in `dir`, read-only. Refuses a store that is in use: a running one
/// verifies itself.
pub fn check(dir: &Path) -> Result<Report, Error> {
    let site = Site::inspect(dir)?;
    let path = site.log();
    if !path.is_dir() {
        return Err(Error::Missing { dir: dir.to_owned() });
    }
    let directory = Directory::open(&path);
    let directory = directory.map_err(|source| Error::Begin { dir: dir.to_owned(), source })?;
    let (log, replay) = read_log(dir, Arc::new(Untouched(directory)), &log::Options::new(0), 0)?;
    if log.is_empty() {
        return Err(Error::Missing { dir: dir.to_owned() });
    }
    let opened = log.opened().clone();
    let Replayed { present, oldest, .. } = replay.finish();
    let torn = opened.torn.map(|it| format!("{} bytes of {} at {}", it.bytes, it.file, it.offset));
    Ok(Report {
        revision: present.state.revision(),
        oldest,
        n_keys: present.state.n_keys() as u64,
        n_leases: present.state.leases().count() as u64,
        n_segments: log.reader().segments().len() as u64,
        n_frames: opened.n_frames,
        bytes: opened.bytes,
        bytes_current: present.index.bytes_current(),
        hash: present.hash.0,
        was_closed: opened.was_closed,
        torn,
    })
}

/// How a store is that nobody has open.
pub fn status(dir: &Path) -> Result<Status, Error> {
    let report = check(dir)?;
    Ok(Status {
        revision: report.revision,
        oldest: report.oldest,
        n_keys: report.n_keys,
        bytes: report.bytes,
        bytes_current: report.bytes_current,
        hash: Some(report.hash),
        read_only: None,
    })
}

/// A disk on which opening repairs nothing.
struct Untouched(Directory);

struct UntouchedFile(Arc<dyn File>);

impl Disk for Untouched {
    fn list(&self) -> io::Result<Vec<String>> {
        self.0.list()
    }
    fn open(&self, name: &str) -> io::Result<Arc<dyn File>> {
        Ok(Arc::new(UntouchedFile(self.0.open(name)?)))
    }
    fn create(&self, _name: &str) -> io::Result<Arc<dyn File>> {
        Err(io::ErrorKind::ReadOnlyFilesystem.into())
    }
    fn rename(&self, _from: &str, _to: &str) -> io::Result<()> {
        Err(io::ErrorKind::ReadOnlyFilesystem.into())
    }
    fn remove(&self, _name: &str) -> io::Result<()> {
        Ok(())
    }
    fn sync_directory(&self) -> io::Result<()> {
        Ok(())
    }
}

impl File for UntouchedFile {
    fn size(&self) -> io::Result<u64> {
        self.0.size()
    }
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.read_at(offset, buffer)
    }
    fn read_cached(&self, offset: u64, buffer: &mut [u8]) -> Option<usize> {
        self.0.read_cached(offset, buffer)
    }
    fn write_at(&self, _offset: u64, _bytes: &[u8]) -> io::Result<()> {
        Err(io::ErrorKind::ReadOnlyFilesystem.into())
    }
    fn set_size(&self, _size: u64) -> io::Result<()> {
        Ok(())
    }
    fn sync(&self) -> io::Result<()> {
        Ok(())
    }
    fn drop_cache(&self) {}
}
