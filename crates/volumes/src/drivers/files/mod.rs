//! Files that change together.
//!
//! ```text
//! key -> ..data/key                          what containers open
//! dir -> ..data/dir
//! ..data -> ..2026_11_16_00_00_00.123456789  replaced in one step by rename
//! ..2026_11_16_00_00_00.123456789/key
//! ..2026_11_16_00_00_00.123456789/dir/other
//! ```

mod tree;

use std::collections::{BTreeMap, BTreeSet};
use std::io::ErrorKind;
use std::path::{Component, Path, PathBuf};

use linux::mount_points;
use node_api::Error;
use node_api::volumes::{File, FilesPlugin, Volume};
use rustix::fs::{Mode, chmod};
use stdx::World;

use super::{Driver, Target};
use crate::attempt::Named as _;
use crate::{Attempt as _, ownership};
use tree::Tree;

const CURRENT: &str = "..data";
const NEXT: &str = "..data_tmp";
/// Of the volume's own directory.
const MODE: u32 = 0o777;

pub(super) struct Files;

impl Driver for Files {
    fn folder(&self, volume: &Volume) -> Option<&'static str> {
        let Volume::Files { plugin, .. } = volume else { return None };
        Some(match plugin {
            FilesPlugin::ConfigMap => "configmap",
            FilesPlugin::Secret => "secret",
            FilesPlugin::DownwardApi => "downward-api",
            FilesPlugin::Projected => "projected",
        })
    }

    fn publish(&self, volume: &Volume, target: &Target<'_>) -> Result<PathBuf, Error> {
        if let Volume::Files { plugin, files } = volume {
            write(*plugin, files, target)?;
        }
        Ok(target.path.clone())
    }
}

fn write(
    plugin: FilesPlugin,
    files: &BTreeMap<String, File>,
    target: &Target<'_>,
) -> Result<(), Error> {
    let Target { path, fs_group, world } = target;
    let fs_group = *fs_group;
    validate(files)?;
    let is_new = !path.exists();
    std::fs::create_dir_all(path).attempt("making", path)?;
    let is_secret = match plugin {
        FilesPlugin::Secret | FilesPlugin::Projected | FilesPlugin::DownwardApi => true,
        FilesPlugin::ConfigMap => false,
    };
    let is_mounted = is_secret && mount_points::ensure_tmpfs(path, None).named()?;
    if is_new || is_mounted {
        let mode = ownership::directory_mode(MODE, fs_group);
        tree::own(path, None, fs_group)?;
        chmod(path, Mode::from_raw_mode(mode)).attempt("setting the mode of", path)?;
    }
    let tree = Tree { files, fs_group };
    let current = current(path)?;
    if !current.as_ref().is_some_and(|it| tree.is_at(&path.join(it))) {
        replace(path, &tree, world)?;
    }
    link_names(path, files)?;
    remove_others(path)
}

/// Paths stay below the volume and do not collide with the names that are ours.
fn validate(files: &BTreeMap<String, File>) -> Result<(), Error> {
    for path in files.keys() {
        let is_plain = |it: Component<'_>| matches!(it, Component::Normal(_));
        let is_below = !path.is_empty() && Path::new(path).components().all(is_plain);
        if !is_below || path.starts_with("..") {
            return Err(Error::Refused(format!("invalid path {path:?} in a volume of files")));
        }
    }
    Ok(())
}

/// The name of the directory that is shown now.
fn current(path: &Path) -> Result<Option<PathBuf>, Error> {
    let link = path.join(CURRENT);
    match std::fs::read_link(&link) {
        Ok(target) => Ok(Some(target)),
        Err(err) if err.kind() == ErrorKind::NotFound => Ok(None),
        Err(err) => Err(err).attempt("reading", &link),
    }
}

fn replace(path: &Path, tree: &Tree<'_>, world: &World) -> Result<(), Error> {
    let now = world.clock.now().strftime("..%Y_%m_%d_%H_%M_%S");
    let name = format!("{now}.{}", world.random.below(1_000_000_000));
    tree.write(&path.join(&name))?;
    let next = path.join(NEXT);
    match std::fs::remove_file(&next) {
        Err(err) if err.kind() != ErrorKind::NotFound => {
            return Err(err).attempt("removing", &next);
        }
        _ => {}
    }
    std::os::unix::fs::symlink(&name, &next).attempt("linking", &next)?;
    std::fs::rename(&next, path.join(CURRENT)).attempt("showing the new files in", path)
}

/// A link for each top-level name, and none for others.
fn link_names(path: &Path, files: &BTreeMap<String, File>) -> Result<(), Error> {
    let wanted: BTreeSet<&str> = files.keys().filter_map(|it| it.split('/').next()).collect();
    for name in &wanted {
        let link = path.join(name);
        match std::os::unix::fs::symlink(Path::new(CURRENT).join(name), &link) {
            Err(err) if err.kind() == ErrorKind::AlreadyExists => {}
            result => result.attempt("linking", &link)?,
        }
    }
    for name in names(path)? {
        let is_ours = name.starts_with("..") || wanted.contains(name.as_str());
        if !is_ours {
            let link = path.join(name);
            std::fs::remove_file(&link).attempt("removing", &link)?;
        }
    }
    Ok(())
}

/// What was shown before, and what a crash left half done.
fn remove_others(path: &Path) -> Result<(), Error> {
    let current = current(path)?;
    for name in names(path)? {
        let is_current = current.as_deref() == Some(Path::new(&name));
        if name.starts_with("..") && name != CURRENT && name != NEXT && !is_current {
            let old = path.join(name);
            std::fs::remove_dir_all(&old).attempt("removing", &old)?;
        }
    }
    Ok(())
}

fn names(path: &Path) -> Result<Vec<String>, Error> {
    let mut names = Vec::new();
    for entry in std::fs::read_dir(path).attempt("listing", path)? {
        let entry = entry.attempt("listing", path)?;
        names.push(entry.file_name().to_string_lossy().into_owned());
    }
    Ok(names)
}
