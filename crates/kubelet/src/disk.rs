//! Small files of pods: the hosts file, termination logs. Away from the async threads.

use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};

use linux::rooted::Root;

/// Runs on a thread where waiting is allowed.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    tokio::task::spawn_blocking(work).await.map_err(io::Error::other)?
}

/// In place, so that a mount of the file sees it. Makes the folders above.
pub(crate) async fn write(path: PathBuf, content: String) -> io::Result<()> {
    blocking(move || {
        if std::fs::read_to_string(&path).is_ok_and(|it| it == content) {
            return Ok(());
        }
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder)?;
        }
        std::fs::write(&path, content)
    })
    .await
}

/// An empty file that any user may write.
pub(crate) async fn create_open(path: PathBuf) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt as _;
    blocking(move || {
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder)?;
        }
        let file = std::fs::File::create(&path)?;
        // Not by the mode of the open, which the process's umask would narrow.
        file.set_permissions(std::fs::Permissions::from_mode(0o666))
    })
    .await
}

/// A folder that is gone is removed.
pub(crate) async fn remove_folder(path: PathBuf) -> io::Result<()> {
    blocking(move || match std::fs::remove_dir_all(&path) {
        Err(err) if err.kind() != io::ErrorKind::NotFound => Err(err),
        _ => Ok(()),
    })
    .await
}

/// Empty when it cannot be read.
pub(crate) async fn read_text(path: &'static str) -> String {
    blocking(move || std::fs::read_to_string(path)).await.unwrap_or_default()
}

/// Logs and last words are `<pod>/<container>/<file>` and alike below a folder of ours.
const LEVELS: usize = 3;

/// Pods may have been given the folder: no link below it is followed, and nothing but a regular
/// file is read.
pub(crate) fn open_own(path: &Path) -> io::Result<std::fs::File> {
    let folder = path.ancestors().nth(LEVELS).unwrap_or_else(|| Path::new("/"));
    let below = path.strip_prefix(folder).unwrap_or(path).to_string_lossy();
    Root::open(folder)?.open_regular(&below)
}

/// At most the first `limit` bytes.
pub(crate) fn read_start(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    open_own(path)?.take(limit).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// At most the last `limit` bytes.
pub(crate) fn read_end(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    let mut file = open_own(path)?;
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(limit)))?;
    let mut bytes = Vec::new();
    file.take(limit).read_to_end(&mut bytes)?;
    Ok(bytes)
}
