//! An empty directory: on the pod's disk, or in memory with a limit that the kernel keeps.

use std::path::Path;

use node_api::Error;
use node_api::volumes::Medium;
use rustix::fs::{Mode, chmod};

use crate::{Attempt as _, mounts, ownership};

/// Any container of the pod may use it.
const MODE: u32 = 0o777;

pub(crate) fn set_up(
    path: &Path,
    medium: Medium,
    size_limit: Option<u64>,
    fs_group: Option<u32>,
) -> Result<(), Error> {
    let is_new = !path.exists();
    std::fs::create_dir_all(path).attempt("making", path)?;
    let is_mounted = medium == Medium::Memory && mounts::ensure_tmpfs(path, size_limit)?;
    if is_new || is_mounted {
        chmod(path, Mode::from_raw_mode(MODE)).attempt("setting the mode of", path)?;
    }
    match fs_group {
        // What containers made in it since then has its group by the set-group-ID bit.
        Some(group) if is_new || is_mounted => ownership::give_directory(path, group),
        _ => Ok(()),
    }
}
