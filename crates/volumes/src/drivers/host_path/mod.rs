//! A path of the host, if it is what the pod expects.

use std::fs::FileType;
use std::os::unix::fs::FileTypeExt as _;
use std::path::PathBuf;

use node_api::Error;
use node_api::volumes::{HostPathKind, Volume};

use super::{Driver, Target};
use crate::Attempt as _;

pub(super) struct HostPath;

impl Driver for HostPath {
    fn folder(&self, volume: &Volume) -> Option<&'static str> {
        matches!(volume, Volume::HostPath { .. }).then_some("host-path")
    }

    fn publish(&self, volume: &Volume, target: &Target<'_>) -> Result<PathBuf, Error> {
        match volume {
            Volume::HostPath { path, kind } => validate(path.clone(), *kind),
            Volume::EmptyDir { .. } | Volume::Files { .. } => Ok(target.path.clone()),
        }
    }
}

fn validate(path: PathBuf, kind: HostPathKind) -> Result<PathBuf, Error> {
    // Links are followed: they are the host's own.
    let found = std::fs::metadata(&path).ok().map(|it| it.file_type());
    let is = |test: fn(&FileType) -> bool| found.as_ref().is_some_and(test);
    let is_missing = found.is_none();
    let mismatch = match kind {
        HostPathKind::Unset | HostPathKind::DirectoryOrCreate if is_missing => {
            std::fs::create_dir_all(&path).attempt("making", &path)?;
            None
        }
        HostPathKind::FileOrCreate if is_missing => {
            let file = std::fs::OpenOptions::new().create(true).append(true).open(&path);
            file.attempt("making", &path)?;
            None
        }
        HostPathKind::Unset => None,
        HostPathKind::Directory | HostPathKind::DirectoryOrCreate => {
            (!is(FileType::is_dir)).then_some("a directory")
        }
        HostPathKind::File | HostPathKind::FileOrCreate => {
            (!is(FileType::is_file)).then_some("a file")
        }
        HostPathKind::Socket => (!is(FileType::is_socket)).then_some("a socket file"),
        HostPathKind::CharDevice => (!is(FileType::is_char_device)).then_some("a character device"),
        HostPathKind::BlockDevice => (!is(FileType::is_block_device)).then_some("a block device"),
    };
    match mismatch {
        Some(what) => {
            let path = path.display();
            Err(Error::Refused(format!("hostPath type check failed: {path} is not {what}")))
        }
        None => Ok(path),
    }
}
