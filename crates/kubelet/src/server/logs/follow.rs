//! Waiting for more: the kernel tells that a file of the directory changed, the node that the
//! container ended.

use std::io;
use std::path::Path;
use std::sync::Arc;

use futures_util::StreamExt as _;
use node_api::containers::ContainerState;
use node_api::{ContainerId, Containers, Events};
use rustix::fs::inotify::{self, CreateFlags, WatchFlags};
use tokio::net::unix::pipe;

/// inotify(7) on the directory: writes to the file, and the new file after a rotation. It is read
/// as a pipe is; there is no safe way in tokio to wait for another kind of descriptor.
pub(super) struct Watcher(pipe::Receiver);

impl Watcher {
    pub(super) fn new(path: &Path) -> io::Result<Self> {
        let directory = path.parent().ok_or(io::ErrorKind::NotFound)?;
        let watcher = inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC)?;
        let changes = WatchFlags::MODIFY | WatchFlags::CREATE | WatchFlags::MOVED_TO;
        inotify::add_watch(&watcher, directory, changes | WatchFlags::ONLYDIR)?;
        Ok(Self(pipe::Receiver::from_owned_fd_unchecked(watcher)?))
    }

    /// Something in the directory has changed since the last call.
    pub(super) async fn changed(&mut self) -> io::Result<()> {
        self.0.readable().await?;
        let mut buffer = [0; 4096];
        loop {
            match self.0.try_read(&mut buffer) {
                Ok(_) => {}
                Err(err) if err.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(err) => return Err(err),
            }
        }
    }
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
