//! Removing a directory with all that is in it, however deep, without following a link or a mount
//! out of it.
//!
//! Everything goes through descriptors: who still writes there may exchange directories for links
//! at any moment.

use std::ffi::CStr;
use std::io;
use std::path::{Path, PathBuf};

use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{
    AtFlags, CWD, Dir, FileType, Mode, OFlags, ResolveFlags, openat2, renameat, statat, unlinkat,
};
use rustix::io::Errno;

/// Directories below this depth are moved up first: each level holds a descriptor and a stack
/// frame.
const DEPTH_MAX: usize = 64;
/// How often new things may appear while others are removed.
const ROUNDS_MAX: usize = 1000;

/// `parent/name`; one that is gone is removed.
pub fn remove(parent: &Path, name: &str) -> io::Result<()> {
    let removal = || -> Result<(), Errno> {
        let parent = match open(CWD, parent) {
            Err(Errno::NOENT) => return Ok(()),
            opened => opened?,
        };
        let top = match open_inside(&parent, Path::new(name)) {
            Err(Errno::NOENT) => return Ok(()),
            opened => opened?,
        };
        let mut removal = Removal { top: &top, n_moved: 0 };
        for _ in 0..ROUNDS_MAX {
            removal.empty(&top, 0)?;
            match unlinkat(&parent, name, AtFlags::REMOVEDIR) {
                // What was moved up, or made in the meantime.
                Err(Errno::NOTEMPTY) => {}
                Ok(()) | Err(Errno::NOENT) => return Ok(()),
                Err(err) => return Err(err),
            }
        }
        Err(Errno::NOTEMPTY)
    };
    Ok(removal()?)
}

struct Removal<'a> {
    top: &'a OwnedFd,
    n_moved: usize,
}

impl Removal<'_> {
    fn empty(&mut self, directory: &OwnedFd, depth: usize) -> Result<(), Errno> {
        for entry in Dir::read_from(directory)? {
            let entry = entry?;
            let name = entry.file_name();
            if matches!(name.to_bytes(), b"." | b"..") {
                continue;
            }
            if is_directory(directory, name, entry.file_type())? {
                self.remove_directory(directory, name, depth)?;
            } else {
                ignore_missing(unlinkat(directory, name, AtFlags::empty()))?;
            }
        }
        Ok(())
    }

    fn remove_directory(
        &mut self,
        parent: &OwnedFd,
        name: &CStr,
        depth: usize,
    ) -> Result<(), Errno> {
        if depth >= DEPTH_MAX {
            self.n_moved += 1;
            let moved = PathBuf::from(format!("..deep-{}", self.n_moved));
            return ignore_missing(renameat(parent, name, self.top, &moved));
        }
        let directory = match open_inside(parent, name) {
            // It became something else.
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => return Ok(()),
            opened => opened?,
        };
        self.empty(&directory, depth + 1)?;
        match unlinkat(parent, name, AtFlags::REMOVEDIR) {
            // The next round comes back to it.
            Err(Errno::NOTEMPTY | Errno::NOTDIR) => Ok(()),
            result => ignore_missing(result),
        }
    }
}

fn ignore_missing(result: Result<(), Errno>) -> Result<(), Errno> {
    match result {
        Err(Errno::NOENT) => Ok(()),
        result => result,
    }
}

fn is_directory(parent: &OwnedFd, name: &CStr, kind: FileType) -> Result<bool, Errno> {
    match kind {
        FileType::Unknown => match statat(parent, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(found) => Ok(FileType::from_raw_mode(found.st_mode) == FileType::Directory),
            Err(Errno::NOENT) => Ok(false),
            Err(err) => Err(err),
        },
        kind => Ok(kind == FileType::Directory),
    }
}

fn open(parent: impl AsFd, path: &Path) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    rustix::fs::openat(parent, path, flags, Mode::empty())
}

/// A directory that is neither a link nor a mount point: `EXDEV` for the latter, also when the same
/// file system is mounted.
fn open_inside<P: rustix::path::Arg>(parent: &OwnedFd, name: P) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_XDEV;
    openat2(parent, name, flags, Mode::empty(), resolve)
}
