//! Writes that go together. HTTP/2 hands a connection each frame by itself, and TLS makes of each a
//! record and a system call. Here frames are put together until the connection is flushed, or until
//! they fill a few records. A flush lets the other tasks of this turn go first, once: whoever tells
//! a hundred watchers of one connection about an event writes it in a few calls, not in a hundred.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Two records.
const GATHERED_MAX: usize = 32 << 10;
/// Most of what is gathered is small.
const GATHERED_FIRST: usize = 4 << 10;

pub(crate) struct Gathered<S> {
    inner: S,
    /// Whether writes are gathered at all: HTTP/1 does it itself.
    is_on: bool,
    /// Empty, and without memory, when nothing waits.
    waiting: Vec<u8>,
    /// How much of it was written.
    n_written: usize,
    /// Whether others have been let first since the last flush.
    has_yielded: bool,
}

impl<S> Gathered<S> {
    pub(crate) fn new(inner: S, is_on: bool) -> Self {
        Self { inner, is_on, waiting: Vec::new(), n_written: 0, has_yielded: false }
    }

    fn has_room(&self, n_bytes: usize) -> bool {
        self.waiting.len() + n_bytes <= GATHERED_MAX
    }

    fn gather(&mut self, bytes: &[u8]) {
        if self.waiting.capacity() == 0 {
            self.waiting.reserve(GATHERED_FIRST.max(bytes.len()));
        }
        self.waiting.extend_from_slice(bytes);
    }
}

impl<S: AsyncWrite + Unpin> Gathered<S> {
    fn poll_write_out(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while self.n_written < self.waiting.len() {
            let rest = &self.waiting[self.n_written..];
            match ready!(Pin::new(&mut self.inner).poll_write(cx, rest))? {
                0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                n_bytes => self.n_written += n_bytes,
            }
        }
        self.waiting = Vec::new();
        self.n_written = 0;
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Gathered<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_read(cx, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Gathered<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        if !self.is_on {
            return Pin::new(&mut self.inner).poll_write(cx, bytes);
        }
        if !self.has_room(bytes.len()) {
            ready!(self.poll_write_out(cx))?;
        }
        if !self.has_room(bytes.len()) {
            return Pin::new(&mut self.inner).poll_write(cx, bytes);
        }
        self.gather(bytes);
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let n_bytes = slices.iter().map(|it| it.len()).sum();
        if self.is_on && !self.has_room(n_bytes) {
            ready!(self.poll_write_out(cx))?;
        }
        if !self.is_on || !self.has_room(n_bytes) {
            return Pin::new(&mut self.inner).poll_write_vectored(cx, slices);
        }
        slices.iter().for_each(|it| self.gather(it));
        Poll::Ready(Ok(n_bytes))
    }

    fn is_write_vectored(&self) -> bool {
        self.is_on || self.inner.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if !self.waiting.is_empty() && !self.has_yielded {
            self.has_yielded = true;
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        ready!(self.poll_write_out(cx))?;
        self.has_yielded = false;
        Pin::new(&mut self.inner).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_write_out(cx))?;
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use tokio::io::AsyncWriteExt as _;

    use super::*;

    /// What was written, call by call; takes so many bytes at once.
    #[derive(Clone)]
    struct Peer {
        calls: Arc<Mutex<Vec<Vec<u8>>>>,
        takes: usize,
    }

    impl AsyncWrite for Peer {
        fn poll_write(
            self: Pin<&mut Self>,
            _: &mut Context<'_>,
            bytes: &[u8],
        ) -> Poll<io::Result<usize>> {
            let taken = &bytes[..bytes.len().min(self.takes)];
            self.calls.lock().unwrap().push(taken.to_vec());
            Poll::Ready(Ok(taken.len()))
        }

        fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }

        fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }
    }

    fn peer(takes: usize) -> (Peer, impl Fn() -> Vec<Vec<u8>>) {
        let calls = Arc::new(Mutex::new(Vec::new()));
        let seen = calls.clone();
        (Peer { calls, takes }, move || seen.lock().unwrap().clone())
    }

    #[tokio::test]
    async fn small_writes_go_together_when_flushed() {
        let (peer, calls) = peer(usize::MAX);
        let mut writer = Gathered::new(peer, true);
        for text in ["a", "bc", "def"] {
            writer.write_all(text.as_bytes()).await.unwrap();
        }
        assert!(calls().is_empty());
        writer.flush().await.unwrap();
        assert_eq!(calls(), [b"abcdef"]);
        assert_eq!(writer.waiting.capacity(), 0, "an idle connection holds nothing");
    }

    #[tokio::test]
    async fn nothing_is_lost_or_out_of_order_whatever_fits() {
        for takes in [1_000, 7_777, usize::MAX] {
            let (peer, calls) = peer(takes);
            let mut writer = Gathered::new(peer, true);
            let mut expected = Vec::new();
            for (number, n_bytes) in
                [10, GATHERED_MAX - 5, 20, 2 * GATHERED_MAX, 1].iter().enumerate()
            {
                let bytes = vec![number as u8; *n_bytes];
                writer.write_all(&bytes).await.unwrap();
                expected.extend(bytes);
            }
            writer.shutdown().await.unwrap();
            assert_eq!(calls().concat(), expected);
        }
    }

    #[tokio::test]
    async fn what_is_not_to_be_gathered_goes_at_once() {
        let (peer, calls) = peer(usize::MAX);
        let mut writer = Gathered::new(peer, false);
        writer.write_all(b"a").await.unwrap();
        assert_eq!(calls(), [b"a"]);
    }
}
