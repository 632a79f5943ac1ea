//! The real disk: a directory of the file system. Files are 0600 and the directory 0700, since
//! stored objects hold secrets.

use std::fs;
use std::io::{self, IoSliceMut};
use std::os::unix::fs::{DirBuilderExt as _, FileExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::{Disk, File};

pub struct Directory {
    path: PathBuf,
    handle: fs::File,
}

struct Opened(fs::File);

impl Directory {
    /// Makes the directory if it is not there, so that it stays: its own entry is synced.
    pub fn open(path: &Path) -> io::Result<Self> {
        match fs::DirBuilder::new().mode(0o700).create(path) {
            Ok(()) => {
                let parent = path.parent().filter(|it| !it.as_os_str().is_empty());
                fs::File::open(parent.unwrap_or_else(|| Path::new(".")))?.sync_all()?;
            }
            Err(err) if err.kind() == io::ErrorKind::AlreadyExists => {}
            Err(err) => return Err(err),
        }
        Ok(Self { path: path.to_owned(), handle: fs::File::open(path)? })
    }

    fn options() -> fs::OpenOptions {
        let mut options = fs::OpenOptions::new();
        options.read(true).write(true).mode(0o600);
        options
    }
}

impl Disk for Directory {
    fn list(&self) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(&self.path)? {
            // A name that is not UTF-8 is none of ours.
            names.extend(entry?.file_name().into_string());
        }
        names.sort();
        Ok(names)
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn File>> {
        Ok(Arc::new(Opened(Self::options().open(self.path.join(name))?)))
    }

    fn create(&self, name: &str) -> io::Result<Arc<dyn File>> {
        Ok(Arc::new(Opened(Self::options().create_new(true).open(self.path.join(name))?)))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        fs::rename(self.path.join(from), self.path.join(to))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        fs::remove_file(self.path.join(name))
    }

    fn sync_directory(&self) -> io::Result<()> {
        self.handle.sync_all()
    }
}

impl File for Opened {
    fn size(&self) -> io::Result<u64> {
        Ok(self.0.metadata()?.len())
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let mut n_read = 0;
        while n_read < buffer.len() {
            match self.0.read_at(&mut buffer[n_read..], offset + n_read as u64) {
                Ok(0) => break,
                Ok(n) => n_read += n,
                Err(err) if err.kind() == io::ErrorKind::Interrupted => {}
                Err(err) => return Err(err),
            }
        }
        Ok(n_read)
    }

    fn read_cached(&self, offset: u64, buffer: &mut [u8]) -> Option<usize> {
        let mut n_read = 0;
        while n_read < buffer.len() {
            let mut rest = [IoSliceMut::new(&mut buffer[n_read..])];
            let at = offset + n_read as u64;
            match rustix::io::preadv2(&self.0, &mut rest, at, rustix::io::ReadWriteFlags::NOWAIT) {
                Ok(0) => break,
                Ok(n) => n_read += n,
                Err(rustix::io::Errno::INTR) => {}
                Err(_) => return None,
            }
        }
        Some(n_read)
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.0.write_all_at(bytes, offset)
    }

    fn set_size(&self, size: u64) -> io::Result<()> {
        self.0.set_len(size)
    }

    fn sync(&self) -> io::Result<()> {
        // fdatasync: the size goes along, times do not.
        self.0.sync_data()
    }

    fn drop_cache(&self) {
        // Advice: a file system that does not take it loses nothing but the freshness of a scrub.
        let _ = rustix::fs::fadvise(&self.0, 0, None, rustix::fs::Advice::DontNeed);
    }
}
