//! Follows the files that admission plugins are told things by: what changes in their folders makes
//! the server look at them again. Files are replaced as often as they are written over, and their
//! folders tell of both.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::select_all;
use lifecycle::Shutdown;
use linux::inotify::{Changes, Watch};
use tokio::io::unix::AsyncFd;

use crate::pipeline::Core;

/// Before folders are looked for again that cannot be followed.
const RETRY_AFTER: Duration = Duration::from_mins(1);

pub(crate) async fn run(core: Arc<Core>, shutdown: Shutdown) {
    loop {
        let folders = watch(&core.admission_files.paths());
        // Also for what changed before they were watched. Reading files may take its time.
        let its = core.clone();
        let _ = tokio::task::spawn_blocking(move || reload(&its)).await;
        tokio::select! {
            biased;
            () = shutdown.cancelled() => return,
            () = changed(folders) => {}
        }
    }
}

/// Looks at the files again, and does by what they say; the log says what comes of it.
fn reload(core: &Core) {
    match core.admission_files.reload(&core.admission) {
        Ok(false) => {}
        Ok(true) => tracing::info!("the files of admission plugins have changed and hold"),
        Err(err) => tracing::error!(
            error = %stdx::error_chain(&err),
            "the files of admission plugins cannot be used; what they said before holds"
        ),
    }
}

fn watch(paths: &BTreeSet<PathBuf>) -> io::Result<Vec<AsyncFd<Watch>>> {
    let folders: BTreeSet<&Path> = paths.iter().filter_map(|it| it.parent()).collect();
    let watch = |folder: &Path| {
        let here = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
        let watch = Watch::directory(here, Changes::Files)?;
        #[expect(deprecated, reason = "an OwnedFd never changes; the new name is unsafe to call")]
        let watch = AsyncFd::new(watch)?;
        Ok(watch)
    };
    folders.into_iter().map(watch).collect()
}

async fn changed(folders: io::Result<Vec<AsyncFd<Watch>>>) {
    let outcome = match &folders {
        Ok(folders) => {
            let changes = folders.iter().map(|it| Box::pin(it.readable()));
            select_all(changes).await.0.map(drop)
        }
        Err(err) => Err(io::Error::new(err.kind(), err.to_string())),
    };
    if let Err(error) = outcome {
        tracing::warn!(%error, "the files of admission plugins cannot be followed");
        tokio::time::sleep(RETRY_AFTER).await;
    }
}
