//! Files below a root that somebody hostile may have filled, or may be changing right now.
//!
//! Promise: no path, symbolic link or race leads out of the root. Every step is taken by the kernel
//! from the root's descriptor (openat2(2)). Links are followed as a process in a chroot would
//! (`find`), refused where they lead out (`beneath`), or refused at all (`plain`). The one resolver:
//! images, volumes and containers all use it.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Component, Path, PathBuf};

use rustix::fs::{AtFlags, FileType, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

/// As many as the kernel follows (path_resolution(7)).
const LINKS_MAX: usize = 40;
const COMPONENTS_MAX: usize = 4096;
/// Others may rename what is being resolved.
const TRIES_MAX: usize = 64;

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
        let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
        self.open_with(Path::new(path), OFlags::PATH, resolve)
    }

    /// The same, but a link that leads out is refused (`EXDEV`), not turned back into the root.
    pub fn find_beneath(&self, path: &Path) -> io::Result<OwnedFd> {
        self.open_with(path, OFlags::PATH, ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS)
    }

    /// A directory to read and to work in, links followed inside the root.
    pub fn open_directory(&self, path: &Path) -> io::Result<OwnedFd> {
        let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
        self.open_with(path, OFlags::RDONLY | OFlags::DIRECTORY, resolve)
    }

    /// The same where no component may be a symbolic link.
    pub fn find_plain(&self, path: &str) -> io::Result<OwnedFd> {
        let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_SYMLINKS;
        self.open_with(Path::new(path), OFlags::PATH, resolve)
    }

    /// Opens a file for writing where no component may be a symbolic link.
    pub fn open_plain_to_write(&self, path: &str) -> io::Result<OwnedFd> {
        let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_SYMLINKS;
        self.open_with(Path::new(path), OFlags::WRONLY, resolve)
    }

    /// Opens a regular file for reading, beneath the root even by `..`, where no component may be a
    /// symbolic link. What is no regular file is refused without being touched: opening a pipe or a
    /// device may block or do something.
    pub fn open_regular(&self, path: &str) -> io::Result<std::fs::File> {
        self.open_regular_with(path, ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS)
    }

    /// The same, but links are followed inside the root.
    pub fn open_regular_inside(&self, path: &str) -> io::Result<std::fs::File> {
        self.open_regular_with(path, ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS)
    }

    fn open_regular_with(&self, path: &str, resolve: ResolveFlags) -> io::Result<std::fs::File> {
        let path = Path::new(path);
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY;
        let named = self.open_with(path, OFlags::PATH, resolve)?;
        if kind(named.as_fd())? != FileType::RegularFile {
            return Err(io::Error::other("it is not a regular file"));
        }
        let file = self.open_with(path, flags, resolve)?;
        if kind(file.as_fd())? != FileType::RegularFile {
            return Err(io::Error::other("it is not a regular file"));
        }
        Ok(file.into())
    }

    fn open_with(&self, path: &Path, flags: OFlags, resolve: ResolveFlags) -> io::Result<OwnedFd> {
        let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
        let open =
            || rustix::fs::openat2(&self.0, path, flags | OFlags::CLOEXEC, Mode::empty(), resolve);
        // Renames in the tree make the kernel give up on `..` with EAGAIN: openat2(2) says to try
        // again.
        let mut result = open();
        for _ in 0..TRIES_MAX {
            if !matches!(result, Err(Errno::AGAIN | Errno::INTR)) {
                break;
            }
            result = open();
        }
        Ok(result?)
    }

    /// What is beneath, or else makes it: directories with this mode, whatever the process's mask.
    /// Links are followed as far as they lead to something beneath.
    pub fn ensure_beneath(&self, path: &Path, mode: u32) -> io::Result<OwnedFd> {
        match self.find_beneath(path) {
            Err(err) if err.kind() == io::ErrorKind::NotFound => {}
            found => return found,
        }
        let mode = Mode::from_raw_mode(mode);
        let mut reached = PathBuf::new();
        let mut directory = self.find_beneath(Path::new("."))?;
        for component in path.components() {
            let Component::Normal(name) = component else { continue };
            reached.push(name);
            directory = match self.find_beneath(&reached) {
                Err(err) if err.kind() == io::ErrorKind::NotFound => {
                    ignore_existing(rustix::fs::mkdirat(&directory, name, mode))?;
                    let made = self.find_beneath(&reached)?;
                    set_mode(&made, mode)?;
                    made
                }
                found => found?,
            };
        }
        Ok(directory)
    }

    /// A directory to work in, made with its parents where nothing is; returns also which were
    /// made, the outer ones first. A link that leads nowhere is an error.
    pub fn ensure_directory(&self, path: &Path, mode: u32) -> io::Result<(OwnedFd, Vec<PathBuf>)> {
        match self.open_directory(path) {
            Err(err) if err.kind() == io::ErrorKind::NotFound => {}
            opened => return Ok((opened?, Vec::new())),
        }
        let (mut reached, mut made) = (PathBuf::new(), Vec::new());
        for component in path.components() {
            let Component::Normal(name) = component else { continue };
            let parent = self.open_directory(&reached)?;
            reached.push(name);
            if ignore_existing(rustix::fs::mkdirat(&parent, name, Mode::from_raw_mode(mode)))? {
                made.push(reached.clone());
            }
        }
        Ok((self.open_directory(path)?, made))
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
            if kind(there.as_fd())? != FileType::Symlink {
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
    Ok(kind(file)? == FileType::Directory)
}

fn kind(file: BorrowedFd<'_>) -> io::Result<FileType> {
    let mode = rustix::fs::statat(file, "", AtFlags::EMPTY_PATH)?.st_mode;
    Ok(FileType::from_raw_mode(mode))
}

/// Whether it was made now.
fn ignore_existing(made: rustix::io::Result<()>) -> io::Result<bool> {
    match made {
        Ok(()) => Ok(true),
        Err(Errno::EXIST) => Ok(false),
        Err(err) => Err(err.into()),
    }
}

/// Through a descriptor that only names the directory.
fn set_mode(directory: &OwnedFd, mode: Mode) -> io::Result<()> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let opened = rustix::fs::openat(directory, ".", flags, Mode::empty())?;
    Ok(rustix::fs::fchmod(&opened, mode)?)
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
    fn beneath_refuses_what_leads_out_and_follows_the_rest() {
        let (directory, root) = tree();
        let inside = directory.path().join("root");
        let check = |link: &str, target: &str, path: &str, expected: Result<&str, i32>| {
            symlink(target, inside.join(link)).unwrap();
            let found = root.ensure_beneath(Path::new(path), 0o750);
            let path = found.map(|it| {
                let name = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&it));
                std::fs::read_link(name).unwrap()
            });
            let expected = expected.map(|it| inside.canonicalize().unwrap().join(it));
            assert_eq!(path.map_err(|err| err.raw_os_error().unwrap()), expected, "{target}");
        };
        check("a", "../outside", "a/made", Err(libc::EXDEV));
        check("b", "/etc", "b", Err(libc::EXDEV));
        check("c", "/proc/self/root", "c/made", Err(libc::EXDEV));
        check("d", "etc", "d/made/deep", Ok("etc/made/deep"));
        let mode = std::os::unix::fs::PermissionsExt::mode(
            &inside.join("etc/made").metadata().unwrap().permissions(),
        );
        assert_eq!(mode & 0o7777, 0o750);
        assert_eq!(std::fs::read_dir(directory.path().join("outside")).unwrap().count(), 0);
    }

    #[test]
    fn directories_that_were_made_are_told() {
        let (directory, root) = tree();
        symlink("etc", directory.path().join("root/link")).unwrap();
        symlink("nowhere", directory.path().join("root/broken")).unwrap();
        let made = |path: &str| {
            let made = root.ensure_directory(Path::new(path), 0o755).map(|(_, made)| made);
            made.map_err(|err| err.kind())
        };
        assert_eq!(made("etc"), Ok(vec![]));
        assert_eq!(made("link/a/b"), Ok(vec!["link/a".into(), "link/a/b".into()]));
        assert!(directory.path().join("root/etc/a/b").is_dir());
        assert_eq!(made("broken/a"), Err(io::ErrorKind::NotFound));
    }

    /// A directory is exchanged for a link that leads out while paths through it are resolved.
    #[test]
    fn a_race_with_a_link_is_never_lost() {
        use std::sync::atomic::{AtomicBool, Ordering};
        let (directory, root) = tree();
        let outside = directory.path().join("outside");
        let (one, other) = (directory.path().join("root/a"), directory.path().join("root/b"));
        std::fs::create_dir(&one).unwrap();
        symlink(&outside, &other).unwrap();
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    let (here, flags) = (rustix::fs::CWD, rustix::fs::RenameFlags::EXCHANGE);
                    rustix::fs::renameat_with(here, &one, here, &other, flags).unwrap();
                }
            });
            for round in 0..500 {
                let path = format!("a/{round}");
                // Refused or not; a link to an absolute path may also lead to somewhere inside.
                let _ = root.ensure_beneath(Path::new(&path), 0o755);
                let _ = root.ensure_directory(Path::new(&path), 0o755);
                let _ = root.ensure(&path, Missing::Directory);
                let left = std::fs::read_dir(&outside).unwrap().count();
                if left != 0 {
                    is_over.store(true, Ordering::Relaxed);
                }
                assert_eq!(left, 0, "round {round} led out");
            }
            is_over.store(true, Ordering::Relaxed);
        });
    }

    #[test]
    fn regular_files_are_opened_inside_and_nothing_else_is() {
        let (directory, root) = tree();
        let inside = directory.path().join("root");
        std::fs::write(inside.join("etc/env"), "in").unwrap();
        std::fs::write(directory.path().join("outside/env"), "out").unwrap();
        symlink("/etc/env", inside.join("absolute")).unwrap();
        symlink("../../outside/env", inside.join("up")).unwrap();
        symlink("/proc/self/environ", inside.join("magic")).unwrap();
        let (pipe, mode) = (inside.join("pipe"), Mode::from_raw_mode(0o600));
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, FileType::Fifo, mode, 0).unwrap();
        let check = |path: &str, is_opened: bool| {
            let content = root.open_regular_inside(path).and_then(io::read_to_string);
            assert_eq!(content.is_ok(), is_opened, "{path}");
            assert!(content.is_err() || content.is_ok_and(|it| it == "in"), "{path}");
        };
        check("etc/env", true);
        check("/etc/env", true);
        check("../../etc/env", true);
        check("absolute", true);
        check("up", false);
        check("magic", false);
        check("pipe", false);
        check("etc", false);
        check("none", false);
    }

    #[test]
    fn plain_look_ups_refuse_links() {
        let (directory, root) = tree();
        symlink("etc", directory.path().join("root/proc")).unwrap();
        root.find("/proc").unwrap();
        assert_eq!(root.find_plain("/proc").unwrap_err().raw_os_error(), Some(libc::ELOOP));
    }
}
