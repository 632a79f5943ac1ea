//! The files of one run: `0.log`, which grows, and the rotated `0.log.20261116-000000` before it.

use std::fs::{self, File, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use crate::disk;

/// Which file it is, whatever it is called by now. Numbers are not reused while the file is open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FileId(u64, u64);

impl FileId {
    pub(super) fn of(metadata: &Metadata) -> Self {
        Self(metadata.dev(), metadata.ino())
    }
}

/// Oldest first; the time in the names sorts. The growing one, if it exists, is the last.
pub(super) fn list(path: &Path) -> io::Result<Vec<PathBuf>> {
    let (Some(directory), Some(name)) = (path.parent(), path.file_name()) else {
        return Ok(Vec::new());
    };
    let name = name.as_encoded_bytes();
    let mut rotated = Vec::new();
    let entries = match fs::read_dir(directory) {
        Err(err) if err.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    for entry in entries {
        let entry = entry?;
        let file_name = entry.file_name();
        let suffix = file_name.as_encoded_bytes().strip_prefix(name);
        // Only such as are named by a time: a compressed one would be nothing to read.
        let is_time = |it: &[u8]| it.iter().all(|it| it.is_ascii_digit() || *it == b'-');
        if suffix.and_then(|it| it.strip_prefix(b".")).is_some_and(is_time) {
            rotated.push(entry.path());
        }
    }
    rotated.sort();
    rotated.push(path.to_owned());
    Ok(rotated)
}

/// `None` if it is gone: rotated to another name, or removed.
pub(super) fn open(path: &Path) -> io::Result<Option<(File, Metadata)>> {
    match disk::open_own(path) {
        Err(err) if err.kind() == io::ErrorKind::NotFound => Ok(None),
        file => {
            let file = file?;
            let metadata = file.metadata()?;
            Ok(Some((file, metadata)))
        }
    }
}

/// All of them, oldest first, none twice. A rotation while they are opened shows as a change of the
/// growing file.
pub(super) fn open_all(path: &Path) -> io::Result<Vec<(File, Metadata)>> {
    const TRIES_MAX: usize = 16;
    for _ in 0..TRIES_MAX {
        let before = id(path)?;
        let mut files = Vec::new();
        for it in list(path)? {
            files.extend(open(&it)?);
        }
        if before == id(path)? {
            return Ok(files);
        }
    }
    Err(io::Error::other("the log is rotated faster than it can be opened"))
}

fn id(path: &Path) -> io::Result<Option<FileId>> {
    match fs::metadata(path) {
        Err(err) if err.kind() == io::ErrorKind::NotFound => Ok(None),
        metadata => Ok(Some(FileId::of(&metadata?))),
    }
}

/// The file that was begun after `current`, if there is one.
pub(super) fn after(path: &Path, current: FileId) -> io::Result<Option<(File, FileId)>> {
    if id(path)?.is_none_or(|it| it == current) {
        return Ok(None);
    }
    let files = open_all(path)?;
    let at = files.iter().position(|(_, metadata)| FileId::of(metadata) == current);
    // Removed meanwhile, as the oldest are: what is left is all newer.
    let next = at.map_or(0, |it| it + 1);
    Ok(files.into_iter().nth(next).map(|(file, metadata)| (file, FileId::of(&metadata))))
}
