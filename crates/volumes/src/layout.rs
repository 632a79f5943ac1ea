//! Where things are, and that names stay names.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use node_api::volumes::{FilesPlugin, SubPath, Volume};
use node_api::{Error, PodUid};

use crate::Attempt as _;

pub(crate) struct Layout {
    pub(crate) directory: PathBuf,
}

impl Layout {
    pub(crate) fn pod(&self, pod: &PodUid) -> Result<PathBuf, Error> {
        Ok(self.directory.join(checked(pod.as_str())?))
    }

    pub(crate) fn volume(
        &self,
        pod: &PodUid,
        name: &str,
        volume: &Volume,
    ) -> Result<PathBuf, Error> {
        let plugin = match volume {
            Volume::EmptyDir { .. } => "empty-dir",
            Volume::HostPath { .. } => "host-path",
            Volume::Files { plugin: FilesPlugin::ConfigMap, .. } => "configmap",
            Volume::Files { plugin: FilesPlugin::Secret, .. } => "secret",
            Volume::Files { plugin: FilesPlugin::DownwardApi, .. } => "downward-api",
            Volume::Files { plugin: FilesPlugin::Projected, .. } => "projected",
        };
        let volumes = self.pod(pod)?.join("volumes").join(format!("kubernetes.io~{plugin}"));
        Ok(volumes.join(checked(name)?))
    }

    pub(crate) fn make_volumes(&self, pod: &PodUid) -> Result<(), Error> {
        let volumes = self.pod(pod)?.join("volumes");
        std::fs::create_dir_all(&volumes).attempt("making", &volumes)
    }

    pub(crate) fn sub_path(&self, pod: &PodUid, sub_path: &SubPath) -> Result<PathBuf, Error> {
        let root = self.pod(pod)?.join("volume-subpaths");
        let container = checked(&sub_path.container)?;
        let volume = checked(&sub_path.volume)?;
        Ok(root.join(volume).join(container).join(sub_path.mount.to_string()))
    }

    pub(crate) fn pods(&self) -> Result<Vec<PodUid>, Error> {
        let doing = "listing";
        let entries = match std::fs::read_dir(&self.directory) {
            Err(err) if err.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries.attempt(doing, &self.directory)?,
        };
        let mut pods = Vec::new();
        for entry in entries {
            let entry = entry.attempt(doing, &self.directory)?;
            let is_directory = entry.file_type().is_ok_and(|it| it.is_dir());
            if let Some(name) = entry.file_name().to_str().filter(|_| is_directory) {
                pods.push(PodUid::new(name));
            }
        }
        pods.sort();
        Ok(pods)
    }
}

/// One name and not a way to somewhere else.
fn checked(name: &str) -> Result<&Path, Error> {
    if name.is_empty() || name == "." || name == ".." || name.contains(['/', '\0']) {
        return Err(Error::Refused(format!("{name:?} cannot be the name of a directory")));
    }
    Ok(Path::new(name))
}
