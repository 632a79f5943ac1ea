//! Files of a sandbox as the holder reads and writes them.

use std::fs;
use std::io::{self, Write as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;

use serde::Serialize;

/// Readers see the old file, the new one or none, never a part. Not synced: after a crash of the
/// machine nothing that it describes runs any more.
pub(crate) fn write_json(path: &Path, value: &impl Serialize) -> io::Result<()> {
    let bytes = serde_json::to_vec(value)?;
    write_atomically(path, &bytes, 0o600)
}

pub(crate) fn write_atomically(path: &Path, bytes: &[u8], mode: u32) -> io::Result<()> {
    let new = path.with_added_extension("new");
    let mut file =
        fs::OpenOptions::new().write(true).create(true).truncate(true).mode(mode).open(&new)?;
    // Whatever the umask is.
    file.set_permissions(fs::Permissions::from_mode(mode))?;
    file.write_all(bytes)?;
    fs::rename(&new, path)
}

/// `Ok(None)`: there is none. Nothing of the file is left in memory but what the value keeps.
pub(crate) fn read_and_forget<T>(
    path: &Path,
    parse: impl FnOnce(&[u8]) -> T,
) -> io::Result<Option<T>> {
    let mut bytes = match fs::read(path) {
        Err(err) if err.kind() == io::ErrorKind::NotFound => return Ok(None),
        bytes => bytes?,
    };
    let value = parse(&bytes);
    bytes.fill(0);
    // Or the compiler would see that nobody reads the zeros.
    std::hint::black_box(&bytes);
    Ok(Some(value))
}
