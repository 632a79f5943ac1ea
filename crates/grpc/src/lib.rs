//! gRPC straight on HTTP/2 frames: length-prefixed messages, statuses, and a client's channel over
//! TCP, TLS or a Unix socket. Messages are written by whoever speaks them; not tonic: see ADR 9.

pub mod channel;
pub mod frame;
mod method;
mod status;

pub use method::Method;
pub use status::{Code, Status};
