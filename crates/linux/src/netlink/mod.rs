//! Links, addresses, routes, nftables, ipsets, conntrack and WireGuard over netlink sockets.
//!
//! [`message`] encodes, [`attributes`] writes and reads attributes, [`socket`] sends and waits for
//! the kernel's answer. Sockets block: the kernel answers within the system call that asks, in
//! microseconds. [`notices`] are what it tells unasked.

pub mod attributes;
pub mod conntrack;
pub mod ethtool;
pub mod garbage;
pub mod generic;
pub mod ip_sets;
pub mod message;
pub mod nftables;
pub mod notices;
pub mod route;
pub mod socket;
pub mod socket_diagnosis;
pub mod wireguard;

use std::io;

pub use attributes::{Attribute, Attributes};
pub use message::{Message, Reply};
pub use socket::{Family, Socket};

/// The kernel refused something, or could not be asked. `doing` ends with the kernel's own words,
/// where it gave any.
#[derive(Debug, thiserror::Error)]
#[error("{doing}")]
pub struct Error {
    pub doing: String,
    #[source]
    pub source: io::Error,
}

impl Error {
    pub(crate) fn new(doing: impl Into<String>, source: impl Into<io::Error>) -> Self {
        Self { doing: doing.into(), source: source.into() }
    }

    /// Whether the kernel answered with this error number.
    pub fn is(&self, errno: rustix::io::Errno) -> bool {
        self.source.raw_os_error() == Some(errno.raw_os_error())
    }
}
