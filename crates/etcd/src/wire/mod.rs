//! gRPC as etcd speaks it: its messages and methods on [`grpc`]'s channel.
//!
//! Not tonic, and the messages are written here and not generated: see ADR 9.

pub mod messages;
pub mod methods;
pub mod tls;

pub use grpc::{Code, Status, channel, frame};
