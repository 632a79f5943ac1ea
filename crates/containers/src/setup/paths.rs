//! Paths that are hidden or read-only, and kernel parameters.

use std::os::fd::{AsFd as _, OwnedFd};

use linux::mounts::{Attributes, Depth, Detached};
use linux::rooted::{self, Root};
use linux::sysctl::Name;
use rustix::fs::{AtFlags, FileType};

use super::refusal::{OrRefuse as _, Refusal, Result};

/// Hides files behind `/dev/null` and directories behind an empty one. Those that are not there
/// need no hiding. `null` is the host's, opened before the container had a say (CVE-2025-31133).
pub(super) fn mask(root: &Root, paths: &[String], null: &OwnedFd) -> Result<()> {
    for path in paths {
        let doing = || format!("mask path {path:?}");
        let Some(target) = find(root, path)? else { continue };
        let cover = if rooted::is_directory(target.as_fd()).or_refuse(doing)? {
            let attributes = Attributes { read_only: Some(true), ..Attributes::default() };
            Detached::new(
                "tmpfs",
                "tmpfs",
                &[("size".to_owned(), Some("0".to_owned()))],
                attributes,
            )
            .or_refuse(doing)?
        } else {
            Detached::copy_of(null.as_fd(), Depth::One).or_refuse(doing)?
        };
        cover.attach(target.as_fd()).or_refuse(doing)?;
    }
    Ok(())
}

/// The host's `/dev/null`, and nothing else that is called so.
pub(super) fn open_null() -> Result<OwnedFd> {
    let doing = || "open /dev/null".to_owned();
    let null = linux::mounts::open_source(std::path::Path::new("/dev/null")).or_refuse(doing)?;
    let stat = rustix::fs::statat(&null, "", AtFlags::EMPTY_PATH).or_refuse(doing)?;
    let is_null = FileType::from_raw_mode(stat.st_mode) == FileType::CharacterDevice
        && rustix::fs::major(stat.st_rdev) == 1
        && rustix::fs::minor(stat.st_rdev) == 3;
    if is_null { Ok(null) } else { Err(Refusal("/dev/null is not the null device".to_owned())) }
}

pub(super) fn make_read_only(root: &Root, paths: &[String]) -> Result<()> {
    for path in paths {
        let doing = || format!("make {path:?} read-only");
        let Some(target) = find(root, path)? else { continue };
        let copy = Detached::copy_of(target.as_fd(), Depth::Recursive).or_refuse(doing)?;
        let attributes = Attributes { read_only: Some(true), ..Attributes::default() };
        copy.set_attributes(attributes, Depth::Recursive).or_refuse(doing)?;
        copy.attach(target.as_fd()).or_refuse(doing)?;
    }
    Ok(())
}

/// No links on the way, so that what is covered is what is named.
fn find(root: &Root, path: &str) -> Result<Option<OwnedFd>> {
    match root.find_plain(path) {
        Ok(target) => Ok(Some(target)),
        Err(err)
            if matches!(
                err.kind(),
                std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory
            ) =>
        {
            Ok(None)
        }
        Err(err) => Err(err).or_refuse(|| format!("find {path:?}")),
    }
}

/// Not a file that somebody has put there: see [`linux::sysctl::set_below`].
pub(super) fn set_sysctl(root: &Root, name: &str, value: &str) -> Result<()> {
    let parsed = Name::parse(name).ok_or_else(|| Refusal(format!("no sysctl: {name:?}")))?;
    linux::sysctl::set_below(root, &parsed, value).or_refuse(|| format!("write sysctl {name}"))
}
