//! Nobody else reads or changes what is in the data directory: whose it is, and its modes, set and
//! checked at every start.

use std::fs::{self, Metadata, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::Path;

use super::Error;

/// Everything in them is ours alone.
const SECRET: &[&str] = &["pki", "store"];
/// Below these others may have files of their own (volumes of pods), but nobody gets there.
const CLOSED: &[&str] = &["containers", "network", "nodes", "pods"];
/// Whoever writes here runs pods with all rights.
const MANIFESTS: &str = "manifests";
/// What a store has at the most, in directories within each other.
const DEPTH_MAX: usize = 8;

/// Of the directory itself, by whatever links its path goes.
pub(super) fn validate_owner(path: &Path) -> Result<(), Error> {
    let metadata = fs::metadata(path).map_err(|source| open(path, source))?;
    is_ours(path, &metadata)
}

/// To be called when it is known to be a directory of xebec's. From its first change on nobody else
/// gets into it; so what was checked stays so.
pub(super) fn protect(path: &Path) -> Result<(), Error> {
    set_mode(path, &fs::metadata(path).map_err(|source| open(path, source))?, 0o700)?;
    for (name, metadata) in entries(path)? {
        let entry = path.join(&name);
        is_ours(&entry, &metadata)?;
        if metadata.is_symlink() {
            // A folder may be on another disk.
            let is_folder = fs::metadata(&entry).is_ok_and(|it| it.is_dir());
            if !is_folder || SECRET.contains(&name.as_str()) {
                return Err(Error::Link(entry));
            }
        } else if SECRET.contains(&name.as_str()) {
            protect_all(&entry, DEPTH_MAX)?;
        } else if name == MANIFESTS {
            set_mode(&entry, &metadata, 0o700)?;
            for (name, metadata) in entries(&entry)? {
                is_ours(&entry.join(name), &metadata)?;
            }
        } else if CLOSED.contains(&name.as_str()) {
            set_mode(&entry, &metadata, 0o700)?;
        } else if metadata.is_file() {
            set_mode(&entry, &metadata, 0o600)?;
        }
    }
    Ok(())
}

fn protect_all(folder: &Path, depth: usize) -> Result<(), Error> {
    let metadata = fs::symlink_metadata(folder).map_err(|source| open(folder, source))?;
    set_mode(folder, &metadata, 0o700)?;
    for (name, metadata) in entries(folder)? {
        let entry = folder.join(name);
        is_ours(&entry, &metadata)?;
        match depth.checked_sub(1) {
            _ if metadata.is_symlink() => return Err(Error::Link(entry)),
            Some(depth) if metadata.is_dir() => protect_all(&entry, depth)?,
            _ => set_mode(&entry, &metadata, 0o600)?,
        }
    }
    Ok(())
}

/// Links are not followed.
fn entries(folder: &Path) -> Result<Vec<(String, Metadata)>, Error> {
    let failed = |source| open(folder, source);
    let mut entries = Vec::new();
    for entry in fs::read_dir(folder).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let metadata = match entry.metadata() {
            Err(err) if err.kind() == io::ErrorKind::NotFound => continue,
            metadata => metadata.map_err(failed)?,
        };
        entries.push((entry.file_name().to_string_lossy().into_owned(), metadata));
    }
    Ok(entries)
}

fn is_ours(path: &Path, metadata: &Metadata) -> Result<(), Error> {
    let (owner, us) = (metadata.uid(), rustix::process::geteuid().as_raw());
    if owner == us { Ok(()) } else { Err(Error::Owner { path: path.to_owned(), owner, us }) }
}

/// Takes away what `most` does not have. What others have no part in stays as it is.
fn set_mode(path: &Path, metadata: &Metadata, most: u32) -> Result<(), Error> {
    let mode = metadata.mode() & 0o7777;
    if mode & 0o077 == 0 {
        return Ok(());
    }
    let failed = |source| Error::Mode { path: path.to_owned(), mode, source };
    fs::set_permissions(path, Permissions::from_mode(most)).map_err(failed)?;
    if fs::metadata(path).map_err(failed)?.mode() & 0o077 == 0 {
        return Ok(());
    }
    Err(failed(io::Error::other("the mode was set, and is not what was set")))
}

fn open(path: &Path, source: io::Error) -> Error {
    Error::Open { path: path.to_owned(), source }
}
