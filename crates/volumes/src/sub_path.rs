//! A part of a volume, resolved where containers cannot interfere, and held by a bind mount.
//!
//! A container can exchange any part of its volume for a link at any time (CVE-2017-1002101,
//! CVE-2021-25741). So the part is opened beneath the volume's root by the kernel, and the
//! descriptor, not the path, is mounted.

use std::os::fd::AsFd as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Component, Path};

use linux::mounts::{Depth, Detached};
use linux::rooted::{self, Root};
use linux::{mount_points, mounts};
use node_api::Error;
use node_api::volumes::SubPath;
use rustix::io::Errno;

use crate::Attempt as _;
use crate::attempt::{Named as _, failed};

pub(crate) fn bind(sub_path: &SubPath, target: &Path) -> Result<(), Error> {
    let path = checked(sub_path)?;
    let root = Root::open(&sub_path.root).attempt("opening", &sub_path.root)?;
    let mode = std::fs::metadata(&sub_path.root).attempt("looking at", &sub_path.root)?.mode();
    let part = root.ensure_beneath(path, mode & 0o7777).map_err(|err| refused(sub_path, err))?;
    let is_directory = rooted::is_directory(part.as_fd()).attempt("looking at", path)?;
    mount_points::unmount_below(target).named()?;
    make_target(target, is_directory)?;
    let tree = Detached::copy_of(part.as_fd(), Depth::One);
    let tree = tree.attempt("opening the tree of", path)?;
    let doing = "mounting a part of a volume on";
    let target_fd = mounts::open_source(target).attempt(doing, target)?;
    tree.attach(target_fd.as_fd()).map(drop).attempt(doing, target)
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

fn refused(sub_path: &SubPath, err: std::io::Error) -> Error {
    let SubPath { path, volume, .. } = sub_path;
    match Errno::from_io_error(&err).unwrap_or(Errno::IO) {
        // Also for links that lead to absolute paths.
        Errno::XDEV | Errno::LOOP => Error::Refused(format!(
            "unable to provision SubPath `{path}`: it leads out of volume {volume:?}"
        )),
        Errno::NOTDIR => Error::Refused(format!(
            "unable to provision SubPath `{path}`: part of it is not a directory"
        )),
        _ => failed("resolving subPath", path, err),
    }
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
