//! How many connections a server takes, and how long it waits.

use std::time::Duration;

/// More are never needed, and each costs memory.
const CONNECTIONS_MAX: usize = 10_000;
const CONNECTIONS_MIN: usize = 8;

/// What of the process's descriptors one listener may use: `1/Share`.
#[derive(Clone, Copy, Debug)]
pub struct Share(pub usize);

/// Requests at once over one connection of HTTP/2, unless somebody says otherwise.
pub const STREAMS_DEFAULT: u32 = 250;

/// What a listener is told; `Share` alone where the rest is as everywhere.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    pub share: Share,
    /// Requests at once over one connection of HTTP/2.
    pub streams: u32,
}

impl From<Share> for Bounds {
    fn from(share: Share) -> Self {
        Self { share, streams: STREAMS_DEFAULT }
    }
}

#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// In all.
    pub connections: usize,
    /// From one address, so that one client alone cannot fill the room, whatever it does.
    pub per_client: usize,
    pub timeouts: Timeouts,
}

#[derive(Clone, Copy, Debug)]
pub struct Timeouts {
    /// For TLS.
    pub handshake: Duration,
    /// From a request's first byte, or from the connection's start, to the end of its head.
    pub header: Duration,
    /// Between requests.
    pub idle: Duration,
    /// While bytes wait for a reader that takes none.
    pub stall: Duration,
    /// What requests in flight get when the server stops, or what is left to send gets when the
    /// connection does.
    pub drain: Duration,
}

impl Limits {
    pub fn of(share: Share, timeouts: Timeouts) -> Self {
        Self::from_descriptors(linux::process::descriptor_limit() / share.0, timeouts)
    }

    fn from_descriptors(descriptors: usize, timeouts: Timeouts) -> Self {
        let connections = descriptors.clamp(CONNECTIONS_MIN, CONNECTIONS_MAX);
        Self { connections, per_client: connections / 2, timeouts }
    }
}

impl Timeouts {
    /// As upstream's servers have them; its clients' handshakes are part of the header's time
    /// there.
    pub const HTTPS: Self = Self {
        handshake: Duration::from_secs(10),
        header: Duration::from_secs(32),
        idle: Duration::from_secs(90),
        stall: Duration::from_secs(60),
        drain: Duration::from_secs(3),
    };
}

#[cfg(test)]
mod tests {
    use super::{Limits, Timeouts};

    #[test]
    fn the_bound_comes_from_the_descriptors_that_there_are() {
        let check = |descriptors, connections| {
            let limits = Limits::from_descriptors(descriptors, Timeouts::HTTPS);
            assert_eq!((limits.connections, limits.per_client), (connections, connections / 2));
        };
        check(0, 8);
        check(256, 256);
        check(1 << 20, 10_000);
    }
}
