//! Descriptors that tokio watches.

use std::io;
use std::os::fd::AsRawFd;

use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// `T` must own its descriptor, and keep it: our callers give owned descriptors and types around
/// one.
#[expect(
    deprecated,
    reason = "the new constructor is unsafe because T might close its descriptor; ours do not"
)]
pub(super) fn watched<T: AsRawFd>(owner: T, interest: Interest) -> io::Result<AsyncFd<T>> {
    AsyncFd::with_interest(owner, interest)
}
