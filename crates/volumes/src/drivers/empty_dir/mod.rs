//! An empty directory: on the pod's disk, or in memory or huge pages with a limit that the kernel keeps.

use std::path::{Path, PathBuf};

use linux::mount_points;
use node_api::Error;
use node_api::volumes::{Medium, Volume};
use rustix::fs::{Mode, chmod};

use super::{Driver, Target};
use crate::attempt::Named as _;
use crate::{Attempt as _, ownership};

/// Any container of the pod may use it.
const MODE: u32 = 0o777;

pub(super) struct EmptyDir;

impl Driver for EmptyDir {
    fn folder(&self, volume: &Volume) -> Option<&'static str> {
        matches!(volume, Volume::EmptyDir { .. }).then_some("empty-dir")
    }

    fn publish(&self, volume: &Volume, target: &Target<'_>) -> Result<PathBuf, Error> {
        if let Volume::EmptyDir { medium, size_limit } = volume {
            make(&target.path, *medium, *size_limit, target.fs_group)?;
        }
        Ok(target.path.clone())
    }
}

fn make(
    path: &Path,
    medium: Medium,
    size_limit: Option<u64>,
    fs_group: Option<u32>,
) -> Result<(), Error> {
    let is_new = !path.exists();
    std::fs::create_dir_all(path).attempt("making", path)?;
    let is_mounted = match medium {
        Medium::Disk => false,
        Medium::Memory => mount_points::ensure_tmpfs(path, size_limit).named()?,
        Medium::HugePages { page_size } => {
            mount_points::ensure_hugetlbfs(path, page_size, size_limit).named()?
        }
    };
    if is_new || is_mounted {
        chmod(path, Mode::from_raw_mode(MODE)).attempt("setting the mode of", path)?;
    }
    match fs_group {
        // What containers made in it since then has its group by the set-group-ID bit.
        Some(group) if is_new || is_mounted => ownership::give_directory(path, group),
        _ => Ok(()),
    }
}
