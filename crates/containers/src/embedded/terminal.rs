//! A terminal's master as streams.

use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use futures_util::FutureExt as _;
use lifecycle::Tasks;
use node_api::containers::{Streams, TerminalSize};
use rustix::io::Errno;
use tokio::io::unix::AsyncFd;
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};
use tokio::sync::watch;

use super::link::Session;
use super::pipes::{Held, exit_code};
use super::watched::watched;
use crate::protocol;

/// Clones are the same descriptor: one reads, one writes.
#[derive(Clone)]
pub(super) struct Descriptor(Arc<AsyncFd<OwnedFd>>);

impl Descriptor {
    pub(super) fn new(descriptor: OwnedFd) -> io::Result<Self> {
        rustix::io::ioctl_fionbio(&descriptor, true)?;
        let both = Interest::READABLE | Interest::WRITABLE;
        Ok(Self(Arc::new(watched(descriptor, both)?)))
    }
}

pub(super) fn streams(
    tasks: &Tasks,
    master: OwnedFd,
    streams: protocol::Streams,
    session: Arc<Session>,
) -> io::Result<Streams> {
    let master = Descriptor::new(master)?;
    let held = || Held::new(master.clone(), session.clone());
    Ok(Streams {
        stdin: streams.stdin.then(|| -> node_api::containers::Writer { Box::new(held()) }),
        stdout: streams.stdout.then(|| -> node_api::containers::Reader { Box::new(held()) }),
        stderr: None,
        resize: Some(resizer(tasks, master.clone())),
        exit: exit_code(session.clone()).boxed(),
    })
}

/// Gives the terminal the latest size, until the sender is dropped.
pub(super) fn resizer(tasks: &Tasks, terminal: Descriptor) -> watch::Sender<Option<TerminalSize>> {
    let (sender, mut sizes) = watch::channel(None);
    tasks.spawn("terminal-size", |shutdown| async move {
        loop {
            tokio::select! {
                biased;
                () = shutdown.cancelled() => return,
                changed = sizes.changed() => if changed.is_err() { return },
            }
            let size: Option<TerminalSize> = *sizes.borrow_and_update();
            if let Some(TerminalSize { width, height }) = size {
                // A terminal whose program has ended has no size that matters.
                let _ = linux::terminal::set_size(terminal.0.as_fd(), width, height);
            }
        }
    });
    sender
}

impl AsyncRead for Descriptor {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        loop {
            let mut ready = ready!(self.0.poll_read_ready(context))?;
            let read = ready
                .try_io(|it| Ok(rustix::io::read(it.get_ref(), buffer.initialize_unfilled())?));
            match read {
                Ok(Ok(length)) => {
                    buffer.advance(length);
                    return Poll::Ready(Ok(()));
                }
                // The last program that had the terminal is gone.
                Ok(Err(err)) if err.raw_os_error() == Some(Errno::IO.raw_os_error()) => {
                    return Poll::Ready(Ok(()));
                }
                Ok(Err(err)) => return Poll::Ready(Err(err)),
                Err(_would_block) => {}
            }
        }
    }
}

impl AsyncWrite for Descriptor {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        loop {
            let mut ready = ready!(self.0.poll_write_ready(context))?;
            let written = ready.try_io(|it| Ok(rustix::io::write(it.get_ref(), bytes)?));
            match written {
                Ok(written) => return Poll::Ready(written),
                Err(_would_block) => {}
            }
        }
    }

    fn poll_flush(self: Pin<&mut Self>, _context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}
