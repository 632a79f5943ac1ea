//! Waiting for more: the kernel tells that a file of the directory changed, the node that the
//! container ended.

use std::io;
use std::path::Path;
use std::sync::Arc;

use futures_util::StreamExt as _;
use linux::inotify::Changes;
use node_api::containers::ContainerState;
use node_api::{ContainerId, Containers, Events};

use crate::folder::Folder;

/// Writes to the file, and the new file after a rotation.
pub(super) fn watch(path: &Path) -> io::Result<Folder> {
    let directory = path.parent().ok_or(io::ErrorKind::NotFound)?;
    Folder::watch(directory, Changes::Writes)
}

/// Knows when the container has ended, so that no more will be written.
pub(super) struct Ending {
    container: ContainerId,
    containers: Arc<dyn Containers>,
    events: Events,
    /// Seen once: one more look into the files is due, then it is over.
    is_seen: bool,
}

impl Ending {
    pub(super) fn new(id: ContainerId, containers: Arc<dyn Containers>, events: Events) -> Self {
        Self { container: id, containers, events, is_seen: false }
    }

    /// It had ended before the last look into the files.
    pub(super) fn is_over(&self) -> bool {
        self.is_seen
    }

    pub(super) async fn wait(&mut self) {
        loop {
            let state = self.containers.get(&self.container).map(|it| it.state);
            if matches!(state, None | Some(ContainerState::Exited(_))) {
                self.is_seen = true;
                return;
            }
            if self.events.next().await.is_none() {
                // The node is shutting down.
                self.is_seen = true;
                return;
            }
        }
    }
}
