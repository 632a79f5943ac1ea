//! The files of one moment: written whole, or compared with what is there.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write as _;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use node_api::Error;
use node_api::volumes::File;
use rustix::fs::{Gid, Mode, Uid, chmod, chown};

use crate::{Attempt as _, ownership};

const DIRECTORY_MODE: u32 = 0o755;

pub(super) struct Tree<'a> {
    pub(super) files: &'a BTreeMap<String, File>,
    pub(super) fs_group: Option<u32>,
}

impl Tree<'_> {
    pub(super) fn write(&self, root: &Path) -> Result<(), Error> {
        std::fs::create_dir(root).attempt("making", root)?;
        for directory in self.directories() {
            let path = root.join(directory);
            std::fs::create_dir_all(&path).attempt("making", &path)?;
        }
        for (name, file) in self.files {
            self.write_file(&root.join(name), file)?;
        }
        for directory in self.directories().into_iter().chain([PathBuf::new()]) {
            let path = root.join(directory);
            own(&path, None, self.fs_group)?;
            let mode = ownership::directory_mode(DIRECTORY_MODE, self.fs_group);
            chmod(&path, Mode::from_raw_mode(mode)).attempt("setting the mode of", &path)?;
        }
        Ok(())
    }

    fn write_file(&self, path: &Path, file: &File) -> Result<(), Error> {
        let opened =
            std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
        let mut opened = opened.attempt("making", path)?;
        opened.write_all(&file.content).attempt("writing", path)?;
        own(path, file.user, self.fs_group)?;
        let mode = ownership::file_mode(file.mode, self.fs_group);
        chmod(path, Mode::from_raw_mode(mode)).attempt("setting the mode of", path)
    }

    /// Whether exactly these files are there, with these modes and owners. What cannot be read is
    /// not there.
    pub(super) fn is_at(&self, root: &Path) -> bool {
        let mut found = BTreeSet::new();
        if list(root, Path::new(""), &mut found).is_err() {
            return false;
        }
        let wanted: BTreeSet<PathBuf> = self.files.keys().map(PathBuf::from).collect();
        found == wanted
            && self.files.iter().all(|(name, file)| self.is_same(&root.join(name), file))
    }

    fn is_same(&self, path: &Path, file: &File) -> bool {
        let Ok(meta) = std::fs::symlink_metadata(path) else { return false };
        meta.is_file()
            && meta.mode() & 0o7777 == ownership::file_mode(file.mode, self.fs_group)
            && meta.uid() == file.user.unwrap_or_default()
            && meta.gid() == self.fs_group.unwrap_or_default()
            && meta.len() == file.content.len() as u64
            && std::fs::read(path).is_ok_and(|it| it == file.content)
    }

    /// Those that files are in, outer ones first.
    fn directories(&self) -> BTreeSet<PathBuf> {
        let ancestors = self.files.keys().flat_map(|it| Path::new(it).ancestors().skip(1));
        ancestors.filter(|it| !it.as_os_str().is_empty()).map(Path::to_owned).collect()
    }
}

fn list(root: &Path, below: &Path, found: &mut BTreeSet<PathBuf>) -> std::io::Result<()> {
    for entry in std::fs::read_dir(root.join(below))? {
        let entry = entry?;
        let path = below.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            list(root, &path, found)?;
        } else {
            found.insert(path);
        }
    }
    Ok(())
}

/// Root's, where nobody else is named.
pub(super) fn own(path: &Path, user: Option<u32>, group: Option<u32>) -> Result<(), Error> {
    let user = Uid::from_raw(user.unwrap_or_default());
    let group = Gid::from_raw(group.unwrap_or_default());
    chown(path, Some(user), Some(group)).attempt("setting the owner of", path)
}
