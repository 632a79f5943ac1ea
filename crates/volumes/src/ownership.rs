//! fsGroup: what a volume holds belongs to the pod's group, and so does what is made in it later.

use std::path::Path;

use node_api::Error;
use rustix::fs::{Gid, Mode, chmod, chown, stat};

use crate::Attempt as _;

const SET_GROUP_ID: u32 = 0o2000;
/// Members may read what the API's objects say.
const READ_FILE: u32 = 0o440;
const READ_DIRECTORY: u32 = 0o550;
const WRITE_DIRECTORY: u32 = 0o770;

/// The mode of a file that the group may read.
pub(crate) fn file_mode(mode: u32, fs_group: Option<u32>) -> u32 {
    if fs_group.is_some() { mode | READ_FILE } else { mode }
}

pub(crate) fn directory_mode(mode: u32, fs_group: Option<u32>) -> u32 {
    if fs_group.is_some() { mode | READ_DIRECTORY | SET_GROUP_ID } else { mode }
}

/// A new, empty directory that the group may write to.
pub(crate) fn give_directory(path: &Path, group: u32) -> Result<(), Error> {
    let mode = stat(path).attempt("looking at", path)?.st_mode & 0o7777;
    chown(path, None, Some(Gid::from_raw(group))).attempt("setting the group of", path)?;
    // After the group, which may clear it.
    let mode = mode | WRITE_DIRECTORY | SET_GROUP_ID;
    chmod(path, Mode::from_raw_mode(mode)).attempt("setting the mode of", path)
}
