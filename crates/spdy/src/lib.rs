//! SPDY/3.1 as Kubernetes speaks it, both sides: streams opened by the client, no flow-control
//! windows (neither side of upstream's implementation keeps any), headers compressed with one
//! dictionary for the connection.

pub mod chunk;
mod client;
mod dictionary;
mod frame;
mod headers;
mod session;

#[cfg(test)]
mod tests;

pub use client::{Client, Opener, client};
pub use headers::Headers;
pub use session::{Session, Stream, session};

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("reading a SPDY frame")]
    Read(#[source] std::io::Error),
    #[error("writing a SPDY frame")]
    Write(#[source] std::io::Error),
    #[error("a SPDY frame of version {0} where 3 is spoken")]
    Version(u16),
    #[error("a SPDY control frame of type {kind} has {length} bytes")]
    Length { kind: u16, length: usize },
    #[error("the headers of a SPDY frame cannot be decompressed")]
    Headers,
    #[error("the headers of a SPDY frame are larger than {0} bytes")]
    HeadersTooLarge(usize),
    #[error("more than {0} SPDY streams are open")]
    TooManyStreams(usize),
}
