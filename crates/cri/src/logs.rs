//! Rotation of the containers' logs. The runtime writes them and opens a new file when it is asked
//! to; nobody tells how large they are, so they are looked at as often as upstream's kubelet does.
//! Rotated files are named by the time and not compressed: a reader can still read them.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use node_api::containers::{Container, ContainerState};

use crate::Inner;

/// As upstream's `containerLogMonitorInterval`.
const PERIOD: Duration = Duration::from_secs(10);

pub(crate) fn spawn(inner: &Arc<Inner>) {
    let inner_of_task = inner.clone();
    inner.tasks.spawn("cri-logs", |shutdown| async move {
        loop {
            tokio::select! {
                biased;
                () = shutdown.cancelled() => return,
                () = tokio::time::sleep(PERIOD) => {}
            }
            tokio::select! {
                biased;
                () = shutdown.cancelled() => return,
                () = inner_of_task.rotate_logs() => {}
            }
        }
    });
}

impl Inner {
    async fn rotate_logs(&self) {
        for container in self.book.containers(None) {
            if !matches!(container.state, ContainerState::Running { .. }) {
                continue;
            }
            if let Err(err) = self.rotate_log(&container).await {
                let (id, error) = (container.id.as_str(), stdx::error_chain(&err));
                tracing::warn!(container = id, error, "a log is not rotated");
            }
        }
    }

    async fn rotate_log(&self, container: &Container) -> Result<(), node_api::Error> {
        let path = &container.config.log_path;
        let doing = || format!("rotating {}", path.display());
        let (path, now) = (path.clone(), self.world.clock.now());
        let (size_max, files_max) = (self.config.log_size_max, self.config.log_files_max);
        let rotated = tokio::task::spawn_blocking(move || match path.metadata() {
            Ok(metadata) if metadata.len() >= size_max => rotate(&path, now, files_max),
            // What is gone needs no rotation.
            Ok(_) | Err(_) => Ok(false),
        });
        let rotated = rotated.await.unwrap_or_else(|err| Err(err.into()));
        if !rotated.map_err(|err| node_api::Error::node(doing(), err))? {
            return Ok(());
        }
        // Until then the runtime writes to the renamed file, and nothing is lost.
        self.reopen_log(&container.id).await
    }
}

/// Renames the log and removes the oldest, so that with the new one there are no more than allowed.
fn rotate(path: &Path, now: Timestamp, files_max: u32) -> io::Result<bool> {
    let mut rotated = rotated_files(path)?;
    let name = now.strftime("%Y%m%d-%H%M%S").to_string();
    let mut to = path.as_os_str().to_owned();
    to.push(format!(".{name}"));
    let to = PathBuf::from(to);
    if to.exists() {
        // Twice in a second: the next look does it.
        return Ok(false);
    }
    std::fs::rename(path, &to)?;
    rotated.push(to);
    let kept = usize::try_from(files_max).unwrap_or(usize::MAX).saturating_sub(1);
    let n_removed = rotated.len().saturating_sub(kept.max(1));
    rotated.iter().take(n_removed).try_for_each(std::fs::remove_file)?;
    Ok(true)
}

/// Oldest first; the time in their names sorts.
fn rotated_files(path: &Path) -> io::Result<Vec<PathBuf>> {
    let (Some(directory), Some(name)) = (path.parent(), path.file_name()) else {
        return Ok(Vec::new());
    };
    let prefix = format!("{}.", name.to_string_lossy());
    let is_time = |it: &str| it.bytes().all(|it| it.is_ascii_digit() || it == b'-');
    let mut found = Vec::new();
    for entry in std::fs::read_dir(directory)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if name.strip_prefix(&prefix).is_some_and(is_time) {
            found.push(entry.path());
        }
    }
    found.sort();
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_goes() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("0.log");
        for second in 0..5 {
            std::fs::write(&path, second.to_string()).unwrap();
            rotate(&path, Timestamp::from_second(second).unwrap(), 3).unwrap();
        }
        let mut left: Vec<String> = std::fs::read_dir(directory.path())
            .unwrap()
            .map(|it| it.unwrap().file_name().to_string_lossy().into_owned())
            .collect();
        left.sort();
        assert_eq!(left, ["0.log.19700101-000003", "0.log.19700101-000004"]);
    }
}
