//! WebSocket connections: channels as the first byte of each message, or a byte stream in messages.

mod channels;
mod handshake;
mod tunnel;

use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;
use tokio_websockets::{Limits, ServerBuilder, WebSocketStream};

pub(crate) use channels::{Channels, Coding};
pub(crate) use handshake::{accept, offered};
pub(crate) use tunnel::Tunnel;

/// Of one message. Clients that send a file to stdin in one message exist.
const MESSAGE_MAX: usize = 16 * 1024 * 1024;

pub(crate) type Socket<T> = WebSocketStream<T>;

pub(crate) fn serve<T: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin>(
    connection: T,
) -> Socket<T> {
    let limits = Limits::default().max_payload_len(Some(MESSAGE_MAX));
    ServerBuilder::new().limits(limits).serve(connection)
}

pub(crate) type Connection = TokioIo<Upgraded>;
