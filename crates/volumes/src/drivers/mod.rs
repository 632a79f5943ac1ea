//! What knows how to make one sort of volume: a folder each. Calls go to the first that takes the
//! volume, and to whoever a folder on the disk belongs to.

mod empty_dir;
mod files;
mod host_path;

use std::path::{Path, PathBuf};

use linux::{mount_points, removal};
use node_api::Error;
use node_api::volumes::Volume;
use stdx::World;

use crate::Attempt as _;
use crate::attempt::Named as _;

const DRIVERS: &[&dyn Driver] = &[&empty_dir::EmptyDir, &files::Files, &host_path::HostPath];

pub(crate) trait Driver: Sync {
    /// Below a pod's `volumes`: `kubernetes.io~<this>`, as upstream names it. `None`: the volume is
    /// another driver's.
    fn folder(&self, volume: &Volume) -> Option<&'static str>;

    /// Makes the volume be so at `target.path`, or finds the path that it is.
    fn publish(&self, volume: &Volume, target: &Target<'_>) -> Result<PathBuf, Error>;
}

/// Where a volume goes, and for whom.
pub(crate) struct Target<'a> {
    pub(crate) path: PathBuf,
    pub(crate) fs_group: Option<u32>,
    pub(crate) world: &'a World,
}

/// The volume's driver, with the name of its folder.
pub(crate) fn find(volume: &Volume) -> Result<(&'static dyn Driver, &'static str), Error> {
    let mut drivers = DRIVERS.iter();
    let found = drivers.find_map(|it| it.folder(volume).map(|folder| (*it, folder)));
    found.ok_or_else(|| Error::Refused("no volume driver takes this volume".to_owned()))
}

/// Takes away what any driver made at `parent/name`: what is mounted there first.
pub(crate) fn remove(parent: &Path, name: &str) -> Result<(), Error> {
    let path = parent.join(name);
    mount_points::unmount_below(&path).named()?;
    removal::remove(parent, name).attempt("removing", &path)
}
