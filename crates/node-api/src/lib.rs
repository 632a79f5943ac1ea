//! What a kubelet needs from the node under it: sandboxes, containers, images, volumes and cgroups,
//! and what sandboxes need from a pod network. Traits and plain types, no Kubernetes objects, no
//! I/O.
//!
//! Promises of every implementation (checked by [`contract`]): creating is idempotent or a named
//! error; stopping and removing what is gone succeeds; reads come from memory and show what was
//! acknowledged; nothing polls, changes are told by [`Events`]. Not promised: that an event is
//! delivered once, or with the state that caused it. Read the state.

pub mod cgroups;
mod cluster_id;
pub mod containers;
pub mod contract;
mod error;
pub mod fake;
mod ids;
pub mod images;
pub mod network;
pub mod resolv_conf;
pub mod sandboxes;
pub mod volumes;

pub use cgroups::Cgroups;
pub use cluster_id::ClusterId;
pub use containers::Containers;
pub use error::Error;
pub use ids::{ContainerId, ImageId, PodRef, PodUid, SandboxId};
pub use images::Images;
pub use network::PodNetwork;
pub use sandboxes::{Event, Events, Sandboxes};
pub use volumes::Volumes;

/// Every method that waits returns one; the traits stay object-safe.
pub type Future<'a, T> = futures_util::future::BoxFuture<'a, Result<T, Error>>;

/// What an implementation answers that does not do something.
fn refused(what: &str) -> Future<'static, ()> {
    Box::pin(std::future::ready(Err(Error::unsupported(what))))
}
