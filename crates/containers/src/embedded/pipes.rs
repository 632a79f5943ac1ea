//! Pipes between `xebec` and a command in a container.

use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures_util::FutureExt as _;
use node_api::containers::Streams;
use rustix::pipe::PipeFlags;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, ReadBuf};
use tokio::net::unix::pipe;

use super::link::Session;
use crate::protocol;

/// Of the pipes to attached clients: what does not fit is lost to them. The most that everybody may
/// have (pipe(7)).
const ATTACH_PIPE_SIZE: usize = 1024 * 1024;
const READ_MAX: usize = 16 * 1024;

/// Both ends of the pipes that were asked for. Ours do not block, theirs do, as programs expect.
#[derive(Default)]
pub(super) struct Ends {
    pub(super) stdin: Option<pipe::Sender>,
    pub(super) stdout: Option<pipe::Receiver>,
    pub(super) stderr: Option<pipe::Receiver>,
    theirs: Vec<OwnedFd>,
}

impl Ends {
    pub(super) fn new(streams: protocol::Streams) -> io::Result<Self> {
        let mut ends = Self::default();
        if streams.stdin {
            let (theirs, ours) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC)?;
            ends.stdin = Some(pipe::Sender::from_owned_fd(ours)?);
            ends.theirs.push(theirs);
        }
        let mut output = |is_wanted: bool| -> io::Result<Option<pipe::Receiver>> {
            if !is_wanted {
                return Ok(None);
            }
            let (ours, theirs) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC)?;
            ends.theirs.push(theirs);
            pipe::Receiver::from_owned_fd(ours).map(Some)
        };
        ends.stdout = output(streams.stdout)?;
        ends.stderr = output(streams.stderr)?;
        Ok(ends)
    }

    /// In the order of the streams' numbers.
    pub(super) fn theirs(&self) -> Vec<BorrowedFd<'_>> {
        self.theirs.iter().map(|it| it.as_fd()).collect()
    }

    /// The holder has its own copies by now; ours would keep the pipes open.
    pub(super) fn close_theirs(&mut self) {
        self.theirs.clear();
    }

    /// Room for bursts. A smaller pipe works too.
    pub(super) fn grow(&self) {
        for end in &self.theirs {
            let _ = rustix::pipe::fcntl_setpipe_size(end, ATTACH_PIPE_SIZE);
        }
    }

    pub(super) fn into_streams(self, session: &Arc<Session>) -> Streams {
        let exit = session.clone();
        Streams {
            stdin: self.stdin.map(|it| Held::new(it, session.clone()).boxed_writer()),
            stdout: self.stdout.map(|it| Held::new(it, session.clone()).boxed_reader()),
            stderr: self.stderr.map(|it| Held::new(it, session.clone()).boxed_reader()),
            resize: None,
            exit: exit_code(exit).boxed(),
        }
    }
}

pub(super) async fn exit_code(session: Arc<Session>) -> Result<i32, node_api::Error> {
    session.exit_code().await.map_err(|err| node_api::Error::node("waiting for a command", err))
}

/// A stream that keeps its session, and with it the command, alive.
pub(super) struct Held<T> {
    /// `None` after a shutdown: the other side sees the end.
    inner: Option<T>,
    _session: Arc<Session>,
}

impl<T> Held<T> {
    pub(super) fn new(inner: T, session: Arc<Session>) -> Self {
        Self { inner: Some(inner), _session: session }
    }
}

impl<T: AsyncRead + Send + Unpin + 'static> Held<T> {
    fn boxed_reader(self) -> node_api::containers::Reader {
        Box::new(self)
    }
}

impl<T: AsyncWrite + Send + Unpin + 'static> Held<T> {
    fn boxed_writer(self) -> node_api::containers::Writer {
        Box::new(self)
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for Held<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match &mut self.inner {
            Some(inner) => Pin::new(inner).poll_read(context, buffer),
            None => Poll::Ready(Ok(())),
        }
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for Held<T> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match &mut self.inner {
            Some(inner) => Pin::new(inner).poll_write(context, bytes),
            None => Poll::Ready(Err(io::ErrorKind::BrokenPipe.into())),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, _context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    /// A pipe ends by being closed.
    fn poll_shutdown(mut self: Pin<&mut Self>, _context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.inner = None;
        Poll::Ready(Ok(()))
    }
}

/// The first bytes of a stream; the rest is read and thrown away, so that its writer does not wait.
pub(super) struct Kept {
    bytes: Vec<u8>,
    limit: usize,
}

impl Kept {
    pub(super) fn new(limit: usize) -> Self {
        Self { bytes: Vec::new(), limit }
    }

    fn keep(&mut self, bytes: &[u8]) {
        let room = self.limit - self.bytes.len();
        self.bytes.extend_from_slice(&bytes[..bytes.len().min(room)]);
    }

    /// To the end.
    pub(super) async fn read(&mut self, stream: Option<&mut pipe::Receiver>) {
        let Some(stream) = stream else { return };
        let mut buffer = vec![0; READ_MAX];
        while let Ok(length @ 1..) = stream.read(&mut buffer).await {
            self.keep(&buffer[..length]);
        }
    }

    /// What is there now.
    pub(super) fn take_rest(&mut self, stream: Option<&mut pipe::Receiver>) {
        let Some(stream) = stream else { return };
        let mut buffer = vec![0; READ_MAX];
        // A pipe holds no more than this; a process that was left behind may write for ever.
        for _ in 0..ATTACH_PIPE_SIZE / READ_MAX {
            match rustix::io::read(&*stream, &mut buffer) {
                Ok(length @ 1..) => self.keep(&buffer[..length]),
                Ok(0) | Err(_) => return,
            }
        }
    }

    pub(super) fn into_bytes(self) -> Bytes {
        Bytes::from(self.bytes)
    }
}
