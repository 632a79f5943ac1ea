//! A part of a volume, resolved where containers cannot interfere, and held by a bind mount.
//!
//! A container can exchange any part of its volume for a link at any time (CVE-2017-1002101,
//! CVE-2021-25741). So the part is opened beneath the volume's root by the kernel, and the
//! descriptor, not the path, is mounted.

use std::path::{Component, Path};

use node_api::Error;
use node_api::volumes::SubPath;
use rustix::fd::OwnedFd;
use rustix::fs::{CWD, FileType, Mode, OFlags, ResolveFlags, fstat, mkdirat, open, openat2};
use rustix::io::Errno;
use rustix::mount::{MoveMountFlags, OpenTreeFlags, move_mount, open_tree};

use crate::attempt::failed;
use crate::{Attempt as _, mounts};

/// Other processes may rename what is being resolved; the kernel then asks to try again.
const TRIES_MAX: usize = 64;

pub(crate) fn bind(sub_path: &SubPath, target: &Path) -> Result<(), Error> {
    let path = checked(sub_path)?;
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    let root = open(&sub_path.root, flags, Mode::empty()).attempt("opening", &sub_path.root)?;
    let part = find_or_make(&root, path).map_err(|err| refused(sub_path, err))?;
    let kind = fstat(&part).attempt("looking at", path)?.st_mode;
    mounts::unmount_below(target)?;
    make_target(target, FileType::from_raw_mode(kind) == FileType::Directory)?;
    let flags = OpenTreeFlags::OPEN_TREE_CLONE
        | OpenTreeFlags::OPEN_TREE_CLOEXEC
        | OpenTreeFlags::AT_EMPTY_PATH;
    let tree = open_tree(&part, "", flags).attempt("opening the tree of", path)?;
    let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH;
    move_mount(&tree, "", CWD, target, flags).attempt("mounting a part of a volume on", target)
}

fn checked(sub_path: &SubPath) -> Result<&Path, Error> {
    let path = Path::new(&sub_path.path);
    let is_plain = |it: Component<'_>| matches!(it, Component::Normal(_) | Component::CurDir);
    if path.components().all(is_plain) {
        return Ok(path);
    }
    let problem =
        if path.is_absolute() { "must not be an absolute path" } else { "must not contain '..'" };
    Err(Error::Refused(format!("unable to provision SubPath `{}`: it {problem}", path.display())))
}

fn refused(sub_path: &SubPath, err: Errno) -> Error {
    let SubPath { path, volume, .. } = sub_path;
    match err {
        // Also for links that lead to absolute paths.
        Errno::XDEV | Errno::LOOP => Error::Refused(format!(
            "unable to provision SubPath `{path}`: it leads out of volume {volume:?}"
        )),
        Errno::NOTDIR => Error::Refused(format!(
            "unable to provision SubPath `{path}`: part of it is not a directory"
        )),
        err => failed("resolving subPath", path, err),
    }
}

/// What is there, or else new directories with the mode of the volume's root.
fn find_or_make(root: &OwnedFd, path: &Path) -> Result<OwnedFd, Errno> {
    match open_beneath(root, path) {
        Err(Errno::NOENT) => {}
        opened => return opened,
    }
    let mode = Mode::from_raw_mode(fstat(root)?.st_mode & 0o7777);
    let mut reached = std::path::PathBuf::new();
    let mut directory = open_beneath(root, Path::new("."))?;
    for component in path.components() {
        let Component::Normal(name) = component else { continue };
        reached.push(name);
        directory = match open_beneath(root, &reached) {
            Err(Errno::NOENT) => {
                match mkdirat(&directory, name, mode) {
                    Ok(()) | Err(Errno::EXIST) => {}
                    Err(err) => return Err(err),
                }
                let made = open_beneath(root, &reached)?;
                set_mode(&made, mode)?;
                made
            }
            opened => opened?,
        };
    }
    Ok(directory)
}

/// The mode as it was asked for, without what the process's mask took away.
fn set_mode(directory: &OwnedFd, mode: Mode) -> Result<(), Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let opened = rustix::fs::openat(directory, ".", flags, Mode::empty())?;
    rustix::fs::fchmod(&opened, mode)
}

/// Links are followed as long as they stay inside.
fn open_beneath(root: &OwnedFd, path: &Path) -> Result<OwnedFd, Errno> {
    let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
    for _ in 0..TRIES_MAX {
        match openat2(root, path, flags, Mode::empty(), resolve) {
            Err(Errno::AGAIN | Errno::INTR) => {}
            opened => return opened,
        }
    }
    Err(Errno::AGAIN)
}

/// What a directory is mounted on is a directory, and a file for everything else.
fn make_target(target: &Path, is_directory: bool) -> Result<(), Error> {
    let parent = target.parent().unwrap_or(target);
    std::fs::create_dir_all(parent).attempt("making", parent)?;
    let found = std::fs::symlink_metadata(target).ok().map(|it| it.is_dir());
    match found {
        Some(true) if !is_directory => {
            std::fs::remove_dir(target).attempt("removing", target)?;
        }
        Some(false) if is_directory => {
            std::fs::remove_file(target).attempt("removing", target)?;
        }
        _ => {}
    }
    if is_directory {
        std::fs::create_dir_all(target).attempt("making", target)
    } else {
        let file = std::fs::OpenOptions::new().create(true).append(true).open(target);
        file.map(|_| ()).attempt("making", target)
    }
}
