//! What kernel settings were before the first cluster of this network namespace changed them.
//! Whoever goes last puts them back, and need not be the one who changed them.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

/// One file per network namespace.
#[derive(Clone, Debug)]
pub(crate) struct Inherited {
    file: PathBuf,
}

impl Inherited {
    /// Of the calling thread's namespace.
    pub(crate) fn here(directory: &Path) -> Result<Self, node_api::Error> {
        let namespace = fs::metadata("/proc/thread-self/ns/net")
            .map_err(|err| node_api::Error::node("find this thread's network namespace", err))?;
        Ok(Self { file: directory.join(format!("xebec-settings-{}.json", namespace.ino())) })
    }

    /// Nothing, if nobody has left anything that can be read.
    pub(crate) fn load(&self) -> BTreeMap<String, String> {
        let bytes = fs::read(&self.file).unwrap_or_default();
        serde_json::from_slice(&bytes).unwrap_or_default()
    }

    pub(crate) fn save(&self, settings: &BTreeMap<String, String>) {
        let written = serde_json::to_vec(settings)
            .map_err(io::Error::other)
            .and_then(|it| fs::write(&self.file, it));
        if let Err(err) = written {
            let file = self.file.display();
            tracing::warn!(%file, error = %err, "other clusters will not know these settings");
        }
    }

    pub(crate) fn remove(&self) -> Result<(), node_api::Error> {
        match fs::remove_file(&self.file) {
            Err(err) if err.kind() != io::ErrorKind::NotFound => {
                Err(node_api::Error::node(format!("remove {}", self.file.display()), err))
            }
            _ => Ok(()),
        }
    }
}
