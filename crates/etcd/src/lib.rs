//! etcd's v3 API: `wire` is the protocol, `engine` is a `kvstore::Store` over an etcd cluster, and
//! `front` serves any `kvstore::Store` to etcd's clients.
//!
//! Knows bytes and revisions, not Kubernetes objects.

pub mod engine;
pub mod front;
#[doc(hidden)]
pub mod garbage;
mod http2;
pub mod wire;
