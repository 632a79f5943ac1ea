//! What carries packets in user space: one process per node, `xebec worker`, which has no
//! privileges and outlives the `xebec` that started it. See README.md.
//!
//! `node` is the end that says what is to be carried, `worker` the process; between them is
//! `protocol`. `tunnel` carries packets of pods to other nodes, `portals` connections to Services.

mod node;
mod place;
mod portals;
mod protocol;
mod tunnel;
mod watched;
mod worker;

pub use node::{Error, Listening, Worker, purge};
pub use place::Place;
pub use portals::{ENDPOINTS_MAX, Portal, Protocol};
pub use protocol::Part;
pub use tunnel::{PORT, Tunnel};
pub use worker::run;

/// The first argument that makes the binary a worker.
pub const ARGUMENT: &str = "worker";
