//! Volume drivers: emptyDir, hostPath and atomically written files, below one directory per pod.

use std::path::PathBuf;

pub struct Config {
    /// `DIRECTORY/<pod uid>/volumes/kubernetes.io~<plugin>/<name>`, as upstream lays it out.
    pub directory: PathBuf,
}

/// Implements [`node_api::Volumes`].
pub struct LocalVolumes;

impl LocalVolumes {
    pub fn open(_config: Config) -> std::io::Result<Self> {
        todo!()
    }
}
