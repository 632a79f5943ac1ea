//! Files below a root that somebody hostile may have filled, or may be changing right now.
//!
//! Promise: no path, symbolic link or race leads out of the root. Every step is taken by the kernel
//! from the root's descriptor (openat2(2)), and links are followed as a process in a chroot would.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::{AtFlags, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

/// As many as the kernel follows (path_resolution(7)).
const LINKS_MAX: usize = 40;
const COMPONENTS_MAX: usize = 4096;

#[derive(Debug)]
pub struct Root(OwnedFd);

/// What to make where nothing is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Missing {
    Directory,
    /// Empty; its parents are directories.
    File,
}

impl Root {
    pub fn open(path: &Path) -> io::Result<Self> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(Self(rustix::fs::open(path, flags, Mode::empty())?))
    }

    pub fn from_descriptor(directory: OwnedFd) -> Self {
        Self(directory)
    }

    /// What is there, links followed inside the root, as a descriptor that only names it
    /// (`O_PATH`).
    pub fn find(&self, path: &str) -> io::Result<OwnedFd> {
        self.open_with(path, OFlags::PATH, ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS)
    }

    /// The same where no component may be a symbolic link.
    pub fn find_plain(&self, path: &str) -> io::Result<OwnedFd> {
        let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_SYMLINKS;
        self.open_with(path, OFlags::PATH, resolve)
    }

    /// Opens a file for writing where no component may be a symbolic link.
    pub fn open_plain_to_write(&self, path: &str) -> io::Result<OwnedFd> {
        let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_SYMLINKS;
        self.open_with(path, OFlags::WRONLY, resolve)
    }

    /// Opens a regular file for reading, beneath the root even by `..`, where no component may be a
    /// symbolic link. What is no regular file is refused without being touched: opening a pipe or a
    /// device may block or do something.
    pub fn open_regular(&self, path: &str) -> io::Result<std::fs::File> {
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY;
        let named = self.open_with(path, OFlags::PATH, resolve)?;
        let is_regular = |file: &OwnedFd| -> io::Result<bool> {
            let mode = rustix::fs::statat(file, "", AtFlags::EMPTY_PATH)?.st_mode;
            Ok(rustix::fs::FileType::from_raw_mode(mode) == rustix::fs::FileType::RegularFile)
        };
        if !is_regular(&named)? {
            return Err(io::Error::other("it is not a regular file"));
        }
        let file = self.open_with(path, flags, resolve)?;
        if !is_regular(&file)? {
            return Err(io::Error::other("it is not a regular file"));
        }
        Ok(file.into())
    }

    fn open_with(&self, path: &str, flags: OFlags, resolve: ResolveFlags) -> io::Result<OwnedFd> {
        let path = if path.is_empty() { "." } else { path };
        let open =
            || rustix::fs::openat2(&self.0, path, flags | OFlags::CLOEXEC, Mode::empty(), resolve);
        // Renames in the tree make the kernel give up on `..` with EAGAIN: openat2(2) says to try
        // again.
        let mut result = open();
        for _ in 0..16 {
            if !matches!(result, Err(Errno::AGAIN | Errno::INTR)) {
                break;
            }
            result = open();
        }
        Ok(result?)
    }

    /// What is there, or else makes it, with its parents. Links that lead nowhere are followed too,
    /// and their destination is made inside the root.
    pub fn ensure(&self, path: &str, missing: Missing) -> io::Result<OwnedFd> {
        match self.find(path) {
            Err(err) if err.raw_os_error() == Some(libc::ENOENT) => {}
            result => return result,
        }
        let mut pending: VecDeque<String> = components(path)?;
        let mut current: Vec<String> = Vec::new();
        let mut links = 0;
        while let Some(component) = pending.pop_front() {
            if component == ".." {
                current.pop();
                continue;
            }
            current.push(component);
            let made = if pending.is_empty() { missing } else { Missing::Directory };
            let there = self.find_plain_or_make(&current, made)?;
            if rustix::fs::FileType::from_raw_mode(rustix::fs::fstat(&there)?.st_mode)
                != rustix::fs::FileType::Symlink
            {
                continue;
            }
            links += 1;
            if links > LINKS_MAX {
                return Err(io::Error::from_raw_os_error(libc::ELOOP));
            }
            let target = rustix::fs::readlinkat(&there, "", Vec::new())?;
            let target = target.to_str().map_err(io::Error::other)?;
            current.pop();
            if target.starts_with('/') {
                current.clear();
            }
            for component in components(target)?.into_iter().rev() {
                pending.push_front(component);
            }
        }
        self.find_plain(&current.join("/"))
    }

    /// `path` has no links in it but perhaps the last component, which is then opened itself.
    fn find_plain_or_make(&self, path: &[String], missing: Missing) -> io::Result<OwnedFd> {
        let whole = path.join("/");
        let find = || {
            let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            // With these flags the last component may be a link, and is opened as such
            // (openat2(2)).
            let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_SYMLINKS;
            rustix::fs::openat2(&self.0, &whole, flags, Mode::empty(), resolve)
        };
        match find() {
            Err(Errno::NOENT) => {}
            result => return Ok(result?),
        }
        let (name, parents) = path.split_last().ok_or(io::ErrorKind::InvalidInput)?;
        let parent = self.find_plain(&parents.join("/"))?;
        let made = match missing {
            Missing::Directory => rustix::fs::mkdirat(&parent, name, Mode::from_raw_mode(0o755)),
            Missing::File => rustix::fs::openat(
                &parent,
                name,
                OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC,
                Mode::from_raw_mode(0o644),
            )
            .map(drop),
        };
        match made {
            Ok(()) | Err(Errno::EXIST) => Ok(find()?),
            Err(err) => Err(err.into()),
        }
    }
}

impl AsFd for Root {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

fn components(path: &str) -> io::Result<VecDeque<String>> {
    let components: VecDeque<String> =
        path.split('/').filter(|it| !it.is_empty() && *it != ".").map(str::to_owned).collect();
    if components.len() > COMPONENTS_MAX {
        return Err(io::Error::from_raw_os_error(libc::ENAMETOOLONG));
    }
    Ok(components)
}

/// Whether this names a directory.
pub fn is_directory(file: BorrowedFd<'_>) -> io::Result<bool> {
    let mode = rustix::fs::statat(file, "", AtFlags::EMPTY_PATH)?.st_mode;
    Ok(rustix::fs::FileType::from_raw_mode(mode) == rustix::fs::FileType::Directory)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn tree() -> (tempfile::TempDir, Root) {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().join("root");
        std::fs::create_dir_all(root.join("etc")).unwrap();
        std::fs::create_dir_all(directory.path().join("outside")).unwrap();
        let opened = Root::open(&root).unwrap();
        (directory, opened)
    }

    #[test]
    fn links_never_lead_out() {
        let check = |link: &str, target: &str, path: &str, expected: &str| {
            let (directory, root) = tree();
            let target =
                target.replace("OUTSIDE", directory.path().join("outside").to_str().unwrap());
            symlink(&target, directory.path().join("root").join(link)).unwrap();
            root.ensure(path, Missing::Directory).unwrap();
            let outside = std::fs::read_dir(directory.path().join("outside")).unwrap().count();
            assert_eq!(outside, 0, "{link} -> {target}");
            assert!(!directory.path().join("made").exists());
            let expected =
                expected.replace("OUTSIDE", directory.path().join("outside").to_str().unwrap());
            let expected = directory.path().join("root").join(expected.trim_start_matches('/'));
            assert!(expected.is_dir(), "{link} -> {target}: no {}", expected.display());
        };
        check("data", "OUTSIDE", "/data/made", "OUTSIDE/made");
        check("data", "../../..", "/data/made", "made");
        check("data", "etc/../../outside", "data/made", "outside/made");
        check("etc/link", "../elsewhere/deep", "/etc/link", "elsewhere/deep");
        check("up", "..", "/up/../up/made", "made");
    }

    #[test]
    fn a_file_is_made_where_a_broken_link_points() {
        let (directory, root) = tree();
        let link = directory.path().join("root/etc/resolv.conf");
        symlink("../run/systemd/resolve/stub-resolv.conf", link).unwrap();
        root.ensure("/etc/resolv.conf", Missing::File).unwrap();
        assert!(directory.path().join("root/run/systemd/resolve/stub-resolv.conf").is_file());
    }

    #[test]
    fn circles_end() {
        let (directory, root) = tree();
        symlink("b", directory.path().join("root/a")).unwrap();
        symlink("a", directory.path().join("root/b")).unwrap();
        let err = root.ensure("/a/x", Missing::Directory).unwrap_err();
        assert_eq!(err.raw_os_error(), Some(libc::ELOOP));
    }

    #[test]
    fn plain_look_ups_refuse_links() {
        let (directory, root) = tree();
        symlink("etc", directory.path().join("root/proc")).unwrap();
        root.find("/proc").unwrap();
        assert_eq!(root.find_plain("/proc").unwrap_err().raw_os_error(), Some(libc::ELOOP));
    }
}
