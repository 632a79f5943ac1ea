//! The server's side of HTTP/2, as much of it as gRPC needs ([ADR
//! 14](../../../../docs/adr/0014-the-front-speaks-http2-itself.md)).
//!
//! `Session` is the protocol alone: bytes in, events out, bytes to send; no I/O, no clock, no
//! tasks. Promises: whatever the peer sends is answered, refused or ends the connection with the
//! reason that the standard names; what it can make us keep is bounded by its windows and by the
//! limits; nothing is sent beyond the peer's windows.

mod frame;
mod hpack;
mod session;
mod streams;
#[cfg(test)]
mod tests;

pub(crate) use frame::Reason;
pub(crate) use session::{Closed, Event, Head, Method, Session, Settings};

/// The peer broke a rule that the connection cannot go on without.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Violation(pub(crate) Reason);
