//! Where the worker of a node is found, and what is started to be one.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The worker's own; made when there is the first one.
    pub directory: PathBuf,
    pub program: PathBuf,
    /// With which the program calls [`crate::run`].
    pub arguments: Vec<OsString>,
}

impl Place {
    /// A program that is a worker when its first argument says so. The directory is among the
    /// arguments for whoever looks at the machine's processes.
    pub fn new(directory: PathBuf, program: PathBuf) -> Self {
        let arguments = vec![crate::ARGUMENT.into(), directory.clone().into_os_string()];
        Self { directory, program, arguments }
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.directory.join("sock")
    }

    /// Held while somebody looks for the worker or starts one.
    pub(crate) fn lock(&self) -> PathBuf {
        self.directory.join("lock")
    }
}

/// Which process it is.
pub(crate) fn record(directory: &Path) -> PathBuf {
    directory.join("worker.json")
}
