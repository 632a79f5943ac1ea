//! Services by a process that takes connections and makes others: rules send what is for a Service to
//! a local port of the node's worker, behind which the endpoints are. See `README.md`.

mod address;
mod apply;
mod guard;
mod portals;
#[cfg(test)]
mod tests;

use super::Mode;

pub use apply::retire;

pub const MODE: Mode = Mode { name: "userspace", open: apply::open, purge: apply::purge };

#[derive(Debug, thiserror::Error)]
pub enum CarryError {
    #[error("the mode userspace needs a worker, and nobody has said where it is")]
    NoPlace,
    #[error("find the addresses of this node")]
    Addresses(#[source] linux::netlink::Error),
    #[error("enter the node's network namespace")]
    Namespace(#[from] linux::network_namespace::Error),
    #[error("have connections to Services carried")]
    Worker(#[from] packets::Error),
}
