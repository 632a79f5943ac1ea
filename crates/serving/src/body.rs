//! Answers, handed over in pieces, so that it is seen whether their reader takes them.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::{Buf as _, Bytes};
use http_body::{Body, Frame, SizeHint};

use crate::Exchange;

/// A larger piece would be held whole for a reader that takes none of it.
const PIECE: usize = 64 << 10;

/// In a request's extensions: where it came from.
#[derive(Clone, Copy, Debug)]
pub struct Peer(pub std::net::SocketAddr);

/// In a response's extensions: its reader may pause for as long as it likes (a log in a pager).
/// Others must take what they asked for.
#[derive(Clone, Copy, Debug)]
pub struct Patient;

/// In a response's extensions: it is the last on its connection.
#[derive(Clone, Copy, Debug)]
pub struct Farewell;

pub(crate) struct Measured<B> {
    inner: B,
    /// What is left of the last frame.
    rest: Bytes,
    exchange: Exchange,
}

impl<B> Measured<B> {
    pub(crate) fn new(inner: B, exchange: Exchange) -> Self {
        Self { inner, rest: Bytes::new(), exchange }
    }

    fn piece(&mut self) -> Frame<Bytes> {
        self.exchange.handed();
        Frame::data(self.rest.split_to(self.rest.len().min(PIECE)))
    }
}

impl<B: Body<Data = Bytes> + Unpin> Body for Measured<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        self.exchange.asked();
        if self.rest.has_remaining() {
            return Poll::Ready(Some(Ok(self.piece())));
        }
        let frame = match Pin::new(&mut self.inner).poll_frame(cx) {
            Poll::Ready(Some(Ok(frame))) => frame,
            other => return other,
        };
        match frame.into_data() {
            Ok(data) => {
                self.rest = data;
                Poll::Ready(Some(Ok(self.piece())))
            }
            Err(other) => Poll::Ready(Some(Ok(other))),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty() && self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let (rest, inner) = (self.rest.len() as u64, self.inner.size_hint());
        let mut hint = SizeHint::new();
        if let Some(upper) = inner.upper() {
            hint.set_upper(upper + rest);
        }
        hint.set_lower(inner.lower() + rest);
        hint
    }
}
