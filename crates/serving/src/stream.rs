//! A socket that says what happens on it.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_util::sync::WaitForCancellationFutureOwned;

use crate::Meter;
use crate::room::Seat;

/// Its place in the room is free when it is closed, whoever holds it then.
pub struct Stream<S = TcpStream> {
    inner: S,
    meter: Arc<Meter>,
    /// Wakes whoever waits for bytes: a connection that was upgraded has left its task.
    eviction: Pin<Box<WaitForCancellationFutureOwned>>,
    _seat: Option<Seat>,
}

impl<S> Stream<S> {
    pub(crate) fn new(inner: S, meter: Arc<Meter>, seat: Option<Seat>) -> Self {
        let eviction = Box::pin(meter.eviction());
        Self { inner, meter, eviction, _seat: seat }
    }

    fn note(&self, written: &Poll<io::Result<usize>>) {
        match written {
            Poll::Ready(Ok(0) | Err(_)) => {}
            Poll::Ready(Ok(_)) => self.meter.sent(),
            Poll::Pending => self.meter.blocked(),
        }
    }
}

fn evicted() -> io::Error {
    io::Error::new(io::ErrorKind::ConnectionAborted, "the connection was ended here")
}

impl<S> Drop for Stream<S> {
    fn drop(&mut self) {
        self.meter.close();
    }
}

impl Stream {
    /// What comes first, without taking it.
    pub async fn peek(&self, buffer: &mut [u8]) -> io::Result<usize> {
        self.inner.peek(buffer).await
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Stream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        if self.meter.is_evicted() {
            return Poll::Ready(Err(evicted()));
        }
        let read = Pin::new(&mut self.inner).poll_read(cx, buffer);
        if buffer.filled().len() > before {
            self.meter.received();
        }
        if read.is_pending() && self.eviction.as_mut().poll(cx).is_ready() {
            return Poll::Ready(Err(evicted()));
        }
        read
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Stream<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        if self.meter.is_evicted() {
            return Poll::Ready(Err(evicted()));
        }
        let written = Pin::new(&mut self.inner).poll_write(cx, bytes);
        self.note(&written);
        written
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        if self.meter.is_evicted() {
            return Poll::Ready(Err(evicted()));
        }
        let written = Pin::new(&mut self.inner).poll_write_vectored(cx, slices);
        self.note(&written);
        written
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }
}
