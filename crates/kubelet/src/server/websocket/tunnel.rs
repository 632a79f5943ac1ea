//! A byte stream in binary messages: how SPDY is tunnelled through WebSocket.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Buf as _, Bytes};
use futures_util::{Sink, Stream as _};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_websockets::{CloseCode, Message};

use super::Socket;

/// Of one message; bounds what is copied at once.
const MESSAGE_MAX: usize = 32 * 1024;

pub(crate) struct Tunnel<T> {
    socket: Socket<T>,
    /// What is left of the last message.
    rest: Bytes,
    is_closing: bool,
}

impl<T: AsyncRead + AsyncWrite + Unpin> Tunnel<T> {
    pub(crate) fn new(socket: Socket<T>) -> Self {
        Self { socket, rest: Bytes::new(), is_closing: false }
    }
}

fn broken(err: tokio_websockets::Error) -> io::Error {
    match err {
        tokio_websockets::Error::Io(err) => err,
        other => io::Error::new(io::ErrorKind::InvalidData, other),
    }
}

impl<T: AsyncRead + AsyncWrite + Unpin> AsyncRead for Tunnel<T> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        out: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        while this.rest.is_empty() {
            match ready!(Pin::new(&mut this.socket).poll_next(cx)) {
                None => return Poll::Ready(Ok(())),
                Some(Ok(message)) if message.is_binary() => {
                    this.rest = Bytes::from(message.into_payload());
                }
                Some(Ok(_)) => {}
                Some(Err(err)) => return Poll::Ready(Err(broken(err))),
            }
        }
        let n_bytes = this.rest.len().min(out.remaining());
        out.put_slice(&this.rest[..n_bytes]);
        this.rest.advance(n_bytes);
        Poll::Ready(Ok(()))
    }
}

impl<T: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Tunnel<T> {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let socket = &mut self.get_mut().socket;
        ready!(Pin::new(&mut *socket).poll_ready(cx)).map_err(broken)?;
        let bytes = &bytes[..bytes.len().min(MESSAGE_MAX)];
        let message = Message::binary(Bytes::copy_from_slice(bytes));
        Pin::new(socket).start_send(message).map_err(broken)?;
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().socket).poll_flush(cx).map_err(broken)
    }

    /// A close message; the other side's bytes can still be read.
    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if !this.is_closing {
            ready!(Pin::new(&mut this.socket).poll_ready(cx)).map_err(broken)?;
            let close = Message::close(Some(CloseCode::NORMAL_CLOSURE), "");
            Pin::new(&mut this.socket).start_send(close).map_err(broken)?;
            this.is_closing = true;
        }
        Pin::new(&mut this.socket).poll_flush(cx).map_err(broken)
    }
}
