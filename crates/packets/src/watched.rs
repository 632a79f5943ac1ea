//! Descriptors that tokio watches.

use std::io;
use std::os::fd::AsRawFd;

use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

#[expect(
    deprecated,
    reason = "the new constructor is unsafe because the owner might close its descriptor; those here own theirs"
)]
pub(crate) fn watched<T: AsRawFd>(owner: T, interest: Interest) -> io::Result<AsyncFd<T>> {
    AsyncFd::with_interest(owner, interest)
}
