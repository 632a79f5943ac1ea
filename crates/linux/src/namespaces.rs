//! Namespaces: new ones for this process, and joining those of others.

use std::io;
use std::ops::BitOr;
use std::os::fd::{AsRawFd, BorrowedFd};

/// A set of kinds of namespaces.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Namespaces(i32);

impl Namespaces {
    pub const NONE: Self = Self(0);
    pub const CGROUP: Self = Self(libc::CLONE_NEWCGROUP);
    pub const IPC: Self = Self(libc::CLONE_NEWIPC);
    pub const MOUNT: Self = Self(libc::CLONE_NEWNS);
    pub const NETWORK: Self = Self(libc::CLONE_NEWNET);
    pub const PID: Self = Self(libc::CLONE_NEWPID);
    pub const USER: Self = Self(libc::CLONE_NEWUSER);
    pub const UTS: Self = Self(libc::CLONE_NEWUTS);

    pub(crate) fn bits(self) -> u32 {
        self.0.cast_unsigned()
    }

    pub fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
}

impl BitOr for Namespaces {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// New namespaces for this thread; those of PIDs for its children. Only in a process with one
/// thread can this be said of the whole process.
pub fn unshare(namespaces: Namespaces) -> io::Result<()> {
    // SAFETY: none of the flags shares or unshares memory or descriptors of this process.
    let result = unsafe { libc::unshare(namespaces.0) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Joins the namespace that `file` (such as `/proc/4711/ns/net`) stands for. It must be of the kind
/// given.
pub fn join(file: BorrowedFd<'_>, kind: Namespaces) -> io::Result<()> {
    // SAFETY: as for `unshare`.
    let result = unsafe { libc::setns(file.as_raw_fd(), kind.0) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Joins those namespaces of a process, all or none (setns(2) with a pidfd, Linux 5.8).
pub fn join_process(pidfd: BorrowedFd<'_>, kinds: Namespaces) -> io::Result<()> {
    join(pidfd, kinds)
}
