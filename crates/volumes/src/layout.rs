//! Where things are, and that names stay names.

use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use node_api::volumes::SubPath;
use node_api::{Error, PodUid};

use crate::Attempt as _;

/// Of the folder of a driver that is part of Kubernetes.
const PREFIX: &str = "kubernetes.io~";

pub(crate) struct Layout {
    pub(crate) directory: PathBuf,
}

impl Layout {
    pub(crate) fn pod(&self, pod: &PodUid) -> Result<PathBuf, Error> {
        Ok(self.directory.join(checked(pod.as_str())?))
    }

    /// What `publish` makes of the volume, if its driver makes something.
    pub(crate) fn volume(&self, pod: &PodUid, folder: &str, name: &str) -> Result<PathBuf, Error> {
        let volumes = self.volumes(pod)?.join(format!("{PREFIX}{folder}"));
        Ok(volumes.join(checked(name)?))
    }

    fn volumes(&self, pod: &PodUid) -> Result<PathBuf, Error> {
        Ok(self.pod(pod)?.join("volumes"))
    }

    fn sub_paths(&self, pod: &PodUid) -> Result<PathBuf, Error> {
        Ok(self.pod(pod)?.join("volume-subpaths"))
    }

    /// Where something of a volume may be: its parts first, which are mounts of what is in it.
    pub(crate) fn parents_of(&self, pod: &PodUid, name: &str) -> Result<Vec<PathBuf>, Error> {
        checked(name)?;
        let mut parents = vec![self.sub_paths(pod)?];
        parents.extend(self.folders(pod)?);
        Ok(parents)
    }

    /// The folders of drivers that have volumes of the pod.
    fn folders(&self, pod: &PodUid) -> Result<Vec<PathBuf>, Error> {
        let volumes = self.volumes(pod)?;
        let names = directories(&volumes)?.into_iter();
        Ok(names.filter(|it| it.starts_with(PREFIX)).map(|it| volumes.join(it)).collect())
    }

    /// The names of volumes that left something on the disk.
    pub(crate) fn names(&self, pod: &PodUid) -> Result<BTreeSet<String>, Error> {
        let mut names = BTreeSet::from_iter(directories(&self.sub_paths(pod)?)?);
        for folder in self.folders(pod)? {
            names.extend(directories(&folder)?);
        }
        Ok(names)
    }

    pub(crate) fn make_volumes(&self, pod: &PodUid) -> Result<(), Error> {
        let volumes = self.volumes(pod)?;
        std::fs::create_dir_all(&volumes).attempt("making", &volumes)
    }

    pub(crate) fn sub_path(&self, pod: &PodUid, sub_path: &SubPath) -> Result<PathBuf, Error> {
        let root = self.sub_paths(pod)?;
        let container = checked(&sub_path.container)?;
        let volume = checked(&sub_path.volume)?;
        Ok(root.join(volume).join(container).join(sub_path.mount.to_string()))
    }

    pub(crate) fn pods(&self) -> Result<Vec<PodUid>, Error> {
        Ok(directories(&self.directory)?.into_iter().map(PodUid::new).collect())
    }
}

/// The names of the directories in a directory, sorted; none if it is not there.
fn directories(parent: &Path) -> Result<Vec<String>, Error> {
    let doing = "listing";
    let entries = match std::fs::read_dir(parent) {
        Err(err) if err.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.attempt(doing, parent)?,
    };
    let mut names = Vec::new();
    for entry in entries {
        let entry = entry.attempt(doing, parent)?;
        let is_directory = entry.file_type().is_ok_and(|it| it.is_dir());
        names.extend(entry.file_name().to_str().filter(|_| is_directory).map(str::to_owned));
    }
    names.sort();
    Ok(names)
}

/// One name and not a way to somewhere else.
fn checked(name: &str) -> Result<&Path, Error> {
    if name.is_empty() || name == "." || name == ".." || name.contains(['/', '\0']) {
        return Err(Error::Refused(format!("{name:?} cannot be the name of a directory")));
    }
    Ok(Path::new(name))
}
