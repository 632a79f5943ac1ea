//! The first process of the PID namespace that all containers of a pod share: it holds the namespace and reaps orphans.

use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};

use linux::namespaces::Namespaces;
use linux::process::{CloneFlags, Fork};

pub(super) struct PodInit {
    pidfd: OwnedFd,
}

impl PodInit {
    /// The child never returns from here; it ends with the holder.
    pub(super) fn start() -> io::Result<Self> {
        let flags = CloneFlags { namespaces: Namespaces::PID, ..CloneFlags::default() };
        match linux::process::fork(flags)? {
            Fork::Parent { pidfd, .. } => Ok(Self { pidfd }),
            Fork::Child => linux::orphanage::run(),
        }
    }

    pub(super) fn pidfd(&self) -> BorrowedFd<'_> {
        self.pidfd.as_fd()
    }
}
