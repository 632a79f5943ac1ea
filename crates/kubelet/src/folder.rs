//! Waiting for changes in a folder.

use std::io;
use std::path::Path;

use linux::inotify::{Changes, Watch};
use tokio::io::unix::AsyncFd;

pub(crate) struct Folder {
    watch: AsyncFd<Watch>,
}

impl Folder {
    pub(crate) fn watch(path: &Path, changes: Changes) -> io::Result<Self> {
        let watch = Watch::directory(path, changes)?;
        #[expect(deprecated, reason = "an OwnedFd never changes; the new name is unsafe to call")]
        let watch = AsyncFd::new(watch)?;
        Ok(Self { watch })
    }

    /// Returns when something changed since the last call; several changes may be one.
    pub(crate) async fn changed(&mut self) -> io::Result<()> {
        loop {
            let mut ready = self.watch.readable().await?;
            let n_changes = self.watch.get_ref().take()?;
            ready.clear_ready();
            if n_changes > 0 {
                return Ok(());
            }
        }
    }
}
