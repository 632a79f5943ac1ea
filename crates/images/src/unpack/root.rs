//! The directory that a layer is unpacked into. Every path is resolved with that directory as root
//! (`linux::rooted`), so that no symbolic link in an archive leads out of it.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::io::{self, Read};
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};

use linux::rooted;
use rustix::fs::{AtFlags, FileType, Gid, Mode, OFlags, Timespec, Timestamps, Uid, XattrFlags};
use rustix::io::Errno;

use super::entries::{Entry, Kind};

const OPAQUE: &str = "trusted.overlay.opaque";
/// Parents that an archive does not mention.
const MODE_PARENT: u32 = 0o755;

/// A path without `.`, `..` and empty parts; empty for the root itself.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct CleanPath(Vec<OsString>);

impl CleanPath {
    /// `None` if it leads outside.
    pub(super) fn parse(path: &[u8]) -> Option<Self> {
        let mut parts: Vec<OsString> = Vec::new();
        for part in path.split(|it| *it == b'/') {
            match part {
                b"" | b"." => {}
                b".." => {
                    parts.pop()?;
                }
                _ => parts.push(OsString::from_vec(part.to_vec())),
            }
        }
        Some(Self(parts))
    }

    pub(super) fn name(&self) -> Option<&OsStr> {
        self.0.last().map(OsString::as_os_str)
    }

    pub(super) fn parent(&self) -> Self {
        Self(self.0[..self.0.len().saturating_sub(1)].to_vec())
    }

    pub(super) fn with_name(&self, name: &[u8]) -> Self {
        let mut path = self.parent();
        path.0.push(OsString::from_vec(name.to_vec()));
        path
    }

    fn to_path(&self) -> PathBuf {
        self.0.iter().collect()
    }

    fn bytes(&self) -> Vec<u8> {
        if self.0.is_empty() {
            return b".".to_vec();
        }
        self.0.iter().map(|it| it.as_bytes()).collect::<Vec<_>>().join(&b'/')
    }
}

pub(super) struct Root {
    root: rooted::Root,
    /// The parent of the entry before; archives are sorted. Forgotten when anything is removed.
    last_parent: Option<(CleanPath, OwnedFd)>,
    /// Directories get their times last: what is made in them changes them.
    directory_times: Vec<(CleanPath, Timestamps)>,
    /// Directories that no entry has described; overlayfs would show their owner and mode in place
    /// of those below.
    implied: BTreeSet<CleanPath>,
}

impl Root {
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        Ok(Self {
            root: rooted::Root::open(path)?,
            last_parent: None,
            directory_times: Vec::new(),
            implied: BTreeSet::new(),
        })
    }

    fn open_directory(&self, path: &CleanPath) -> io::Result<OwnedFd> {
        self.root.open_directory(&path.to_path())
    }

    /// Makes what is missing.
    fn directory(&mut self, path: &CleanPath) -> io::Result<OwnedFd> {
        let (directory, made) = self.root.ensure_directory(&path.to_path(), MODE_PARENT)?;
        let made = made.iter().filter_map(|it| CleanPath::parse(it.as_os_str().as_bytes()));
        self.implied.extend(made);
        Ok(directory)
    }

    fn parent(&mut self, path: &CleanPath) -> io::Result<OwnedFd> {
        let parent = path.parent();
        if let Some((cached, fd)) = &self.last_parent
            && *cached == parent
        {
            return fd.try_clone();
        }
        let fd = self.directory(&parent)?;
        self.last_parent = Some((parent, fd.try_clone()?));
        Ok(fd)
    }

    /// The entry of that name goes, whatever it is.
    fn clear(&mut self, parent: &OwnedFd, name: &OsStr) -> io::Result<()> {
        match rustix::fs::unlinkat(parent, name, AtFlags::empty()) {
            Err(Errno::NOENT) => return Ok(()),
            Err(Errno::ISDIR) => std::fs::remove_dir_all(by_descriptor(parent).join(name))?,
            outcome => outcome?,
        }
        self.last_parent = None;
        Ok(())
    }

    pub(super) fn make(
        &mut self,
        path: &CleanPath,
        entry: &Entry,
        content: &mut dyn Read,
    ) -> io::Result<()> {
        let Some(name) = path.name() else {
            // The root itself; it can only be a directory.
            let fd = self.open_directory(path)?;
            return self.describe_directory(path, &fd, entry);
        };
        let parent = self.parent(path)?;
        match entry.kind {
            Kind::Directory => return self.make_directory(path, &parent, entry),
            Kind::File => return self.make_file(&parent, name, entry, content),
            Kind::HardLink => return self.make_hard_link(&parent, name, entry),
            _ => self.clear(&parent, name)?,
        }
        let mode = Mode::from_raw_mode(entry.mode);
        let device = rustix::fs::makedev(entry.device.0, entry.device.1);
        let node = |kind| rustix::fs::mknodat(&parent, name, kind, mode, device);
        match entry.kind {
            Kind::CharacterDevice => node(FileType::CharacterDevice)?,
            Kind::BlockDevice => node(FileType::BlockDevice)?,
            Kind::Fifo => rustix::fs::mknodat(&parent, name, FileType::Fifo, mode, 0)?,
            _ => rustix::fs::symlinkat(entry.link.as_slice(), &parent, name)?,
        }
        let (uid, gid) = owner(entry);
        rustix::fs::chownat(&parent, name, uid, gid, AtFlags::SYMLINK_NOFOLLOW)?;
        if entry.kind != Kind::SymbolicLink {
            // The process' umask has taken from the mode.
            rustix::fs::chmodat(&parent, name, mode, AtFlags::empty())?;
        }
        for (key, value) in allowed_xattrs(entry) {
            let path = by_descriptor(&parent).join(name);
            tolerate(rustix::fs::lsetxattr(path, key, value, XattrFlags::empty()))?;
        }
        rustix::fs::utimensat(&parent, name, &times(entry), AtFlags::SYMLINK_NOFOLLOW)?;
        Ok(())
    }

    fn make_directory(
        &mut self,
        path: &CleanPath,
        parent: &OwnedFd,
        entry: &Entry,
    ) -> io::Result<()> {
        let name = path.name().unwrap_or_default();
        let found = rustix::fs::statat(parent, name, AtFlags::SYMLINK_NOFOLLOW).ok();
        let kind = found.as_ref().map(|it| FileType::from_raw_mode(it.st_mode));
        // A removed directory that comes back in the same layer shows nothing of the one below.
        let was_whiteout = kind == Some(FileType::CharacterDevice)
            && found.as_ref().is_some_and(|it| it.st_rdev == 0);
        if kind != Some(FileType::Directory) {
            self.clear(parent, name)?;
            rustix::fs::mkdirat(parent, name, Mode::from_raw_mode(MODE_PARENT))?;
        }
        self.implied.remove(path);
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let fd = rustix::fs::openat(parent, name, flags, Mode::empty())?;
        self.describe_directory(path, &fd, entry)?;
        if was_whiteout {
            rustix::fs::fsetxattr(&fd, OPAQUE, b"y", XattrFlags::empty())?;
        }
        Ok(())
    }

    fn describe_directory(
        &mut self,
        path: &CleanPath,
        fd: &OwnedFd,
        entry: &Entry,
    ) -> io::Result<()> {
        if entry.kind != Kind::Directory {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "the root is no directory"));
        }
        describe(fd, entry)?;
        self.directory_times.push((path.clone(), times(entry)));
        Ok(())
    }

    fn make_file(
        &mut self,
        parent: &OwnedFd,
        name: &OsStr,
        entry: &Entry,
        content: &mut dyn Read,
    ) -> io::Result<()> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let create = || {
            rustix::fs::openat(parent, name, flags | OFlags::NOFOLLOW, Mode::from_raw_mode(0o600))
        };
        let fd = match create() {
            Err(Errno::EXIST) => {
                self.clear(parent, name)?;
                create()?
            }
            outcome => outcome?,
        };
        let mut file = std::fs::File::from(fd);
        io::copy(content, &mut file)?;
        let fd = OwnedFd::from(file);
        describe(&fd, entry)?;
        rustix::fs::futimens(&fd, &times(entry))?;
        Ok(())
    }

    fn make_hard_link(&mut self, parent: &OwnedFd, name: &OsStr, entry: &Entry) -> io::Result<()> {
        let outside = || io::Error::new(io::ErrorKind::InvalidData, "the link leads outside");
        let target = CleanPath::parse(&entry.link).ok_or_else(outside)?;
        let target_parent = self.open_directory(&target.parent())?;
        let target_name = target.name().ok_or_else(outside)?;
        let link =
            || rustix::fs::linkat(&target_parent, target_name, parent, name, AtFlags::empty());
        match link() {
            Err(Errno::EXIST) => {
                let stat = |fd, name| rustix::fs::statat(fd, name, AtFlags::SYMLINK_NOFOLLOW);
                let (one, two) = (stat(&target_parent, target_name)?, stat(parent, name)?);
                if (one.st_dev, one.st_ino) == (two.st_dev, two.st_ino) {
                    return Ok(());
                }
                self.clear(parent, name)?;
                Ok(link()?)
            }
            outcome => Ok(outcome?),
        }
    }

    /// Nothing of that name in the layers below is seen: overlayfs' whiteout, a character device
    /// 0/0.
    pub(super) fn whiteout(&mut self, path: &CleanPath) -> io::Result<()> {
        let name = path.name().unwrap_or_default();
        let parent = self.parent(path)?;
        let (kind, mode) = (FileType::CharacterDevice, Mode::empty());
        match rustix::fs::mknodat(&parent, name, kind, mode, rustix::fs::makedev(0, 0)) {
            // It is made anew in this layer, before its own whiteout.
            Err(Errno::EXIST) => match self.open_directory(path) {
                Ok(fd) => Ok(rustix::fs::fsetxattr(fd, OPAQUE, b"y", XattrFlags::empty())?),
                Err(_) => Ok(()),
            },
            outcome => Ok(outcome?),
        }
    }

    /// Nothing in the directory of the layers below is seen.
    pub(super) fn opaque(&mut self, directory: &CleanPath) -> io::Result<()> {
        let fd = self.directory(directory)?;
        Ok(rustix::fs::fsetxattr(fd, OPAQUE, b"y", XattrFlags::empty())?)
    }

    /// The last step. Gives the directories that the archive has not described.
    pub(super) fn finish(mut self) -> io::Result<Vec<Vec<u8>>> {
        for (path, times) in std::mem::take(&mut self.directory_times).iter().rev() {
            // One that was replaced since has no times of its own any more.
            if let Ok(fd) = self.open_directory(path) {
                rustix::fs::futimens(fd, times)?;
            }
        }
        Ok(self.implied.iter().map(CleanPath::bytes).collect())
    }
}

/// The kernel's name of an open directory, for calls that take only paths.
fn by_descriptor(fd: &OwnedFd) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", fd.as_fd().as_raw_fd()))
}

fn owner(entry: &Entry) -> (Option<Uid>, Option<Gid>) {
    (Some(Uid::from_raw(entry.uid)), Some(Gid::from_raw(entry.gid)))
}

/// In this order: a change of owner takes away set-user-id bits and file capabilities.
fn describe(fd: &OwnedFd, entry: &Entry) -> io::Result<()> {
    let (uid, gid) = owner(entry);
    rustix::fs::fchown(fd, uid, gid)?;
    rustix::fs::fchmod(fd, Mode::from_raw_mode(entry.mode))?;
    for (name, value) in allowed_xattrs(entry) {
        tolerate(rustix::fs::fsetxattr(fd, name, value, XattrFlags::empty()))?;
    }
    Ok(())
}

/// Overlayfs' own attributes could make it show what is elsewhere on the host, and labels are the
/// host's business.
fn allowed_xattrs(entry: &Entry) -> impl Iterator<Item = (&[u8], &[u8])> {
    let is_allowed = |name: &[u8]| {
        name == b"security.capability"
            || name.starts_with(b"system.posix_acl_")
            || (name.starts_with(b"user.") && !name.starts_with(b"user.overlay."))
    };
    entry
        .xattrs
        .iter()
        .map(|(name, value)| (name.as_slice(), value.as_slice()))
        .filter(move |(name, _)| is_allowed(name))
}

/// Not every filesystem has every attribute; upstream goes on too.
fn tolerate(outcome: rustix::io::Result<()>) -> io::Result<()> {
    match outcome {
        Err(Errno::NOTSUP) => Ok(()),
        outcome => Ok(outcome?),
    }
}

fn times(entry: &Entry) -> Timestamps {
    let (tv_sec, nanoseconds) = entry.mtime;
    let time = Timespec { tv_sec, tv_nsec: i64::from(nanoseconds) };
    Timestamps { last_access: time, last_modification: time }
}
