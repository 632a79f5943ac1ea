//! Connections to ports inside a pod: over SPDY, where the client opens a pair of streams for each
//! connection, and over WebSocket channels, where each port has one connection for as long as the
//! client is there.

mod connection;
mod over_spdy;
mod over_websocket;

use std::sync::Arc;

use node_api::{Containers, SandboxId};

pub(crate) use over_spdy::PROTOCOL as SPDY_PROTOCOL;
pub(crate) use over_websocket::{ports, protocol};

/// Where to connect, and how errors name it.
#[derive(Clone)]
pub(crate) struct Target {
    pub(crate) containers: Arc<dyn Containers>,
    pub(crate) sandbox: SandboxId,
    /// `namespace/name`
    pub(crate) pod: String,
    pub(crate) uid: String,
}
