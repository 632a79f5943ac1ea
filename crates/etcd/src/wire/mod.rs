//! gRPC as etcd speaks it, straight on HTTP/2 frames: messages, length-prefixed framing, statuses,
//! and a client's channel.
//!
//! Not tonic, and the messages are written here and not generated: see ADR 9.

pub mod channel;
pub mod frame;
pub mod messages;
pub mod methods;
mod status;
pub mod tls;

pub use status::{Code, Status};
