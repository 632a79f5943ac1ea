//! BGP-4 as a node speaks it: messages as bytes, and the two sides of a session, without I/O.
//!
//! Promises: whatever bytes come in, there is an answer and no panic; time comes in as a parameter;
//! what a peer sent is bounded by [`Config::routes_max`]. A node says what is its own and passes on
//! nothing that it heard.
//! Does not promise a choice between paths of several peers: see [`best`].

mod bytes;
mod decision;
pub mod garbage;
mod message;
mod peer;

pub use decision::{Candidate, best};
pub use message::{
    AsPath, Attributes, Capability, DecodeError, GracefulRestart, Message, Notification, Open,
    Origin, Reach, Update,
};
pub use peer::{
    Action, Announcement, Config, ConnectionId, Down, Input, Learned, Moment, Path, Peer,
};
