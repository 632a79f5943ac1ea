//! Streams of faked commands, without a task behind them.

use std::io::Cursor;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures_util::future::BoxFuture;
use tokio::io::{AsyncWrite, SimplexStream, WriteHalf};
use tokio::sync::{oneshot, watch};

use super::programs::Exec;
use crate::Error;
use crate::containers::{ExecRequest, Reader, Streams, Writer};

/// Bytes that an echo holds before its writer waits.
const PIPE: usize = 64 * 1024;

pub(super) fn of_exec(exec: Exec, request: &ExecRequest) -> Streams {
    if exec.echoes && request.stdin {
        return of_echo(request);
    }
    let exit = async move {
        match exec.takes {
            Some(takes) => tokio::time::sleep(takes).await,
            None => std::future::pending().await,
        }
        Ok(exec.code)
    };
    streams(request, None, reader(exec.stdout), exec.stderr, Box::pin(exit))
}

pub(super) fn of_container(
    output: Bytes,
    request: &ExecRequest,
    exit: BoxFuture<'static, Result<i32, Error>>,
) -> Streams {
    streams(request, None, reader(output), Bytes::new(), exit)
}

/// Ends, with code 0, when its input does.
fn of_echo(request: &ExecRequest) -> Streams {
    let (stdout, pipe) = tokio::io::simplex(PIPE);
    let (ended, on_end) = oneshot::channel::<()>();
    let stdin: Writer = Box::new(Echo { pipe, _ended: ended });
    let exit = async move {
        // Never sent, only dropped.
        let _ = on_end.await;
        Ok(0)
    };
    streams(request, Some(stdin), Box::new(stdout), Bytes::new(), Box::pin(exit))
}

fn streams(
    request: &ExecRequest,
    stdin: Option<Writer>,
    stdout: Reader,
    stderr: Bytes,
    exit: BoxFuture<'static, Result<i32, Error>>,
) -> Streams {
    Streams {
        stdin: request.stdin.then(|| stdin.unwrap_or_else(|| Box::new(tokio::io::sink()))),
        stdout: request.stdout.then_some(stdout),
        stderr: (request.stderr && !request.tty).then(|| reader(stderr)),
        resize: request.tty.then(|| watch::Sender::new(None)),
        exit,
    }
}

fn reader(text: Bytes) -> Reader {
    Box::new(Cursor::new(text))
}

/// The input of an echo: what is written can be read, and dropping it ends the command.
struct Echo {
    pipe: WriteHalf<SimplexStream>,
    _ended: oneshot::Sender<()>,
}

impl Drop for Echo {
    fn drop(&mut self) {
        let mut context = Context::from_waker(std::task::Waker::noop());
        // A simplex pipe closes at once.
        let _ = Pin::new(&mut self.pipe).poll_shutdown(&mut context);
    }
}

impl AsyncWrite for Echo {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<std::io::Result<usize>> {
        Pin::new(&mut self.pipe).poll_write(context, bytes)
    }

    fn poll_flush(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.pipe).poll_flush(context)
    }

    fn poll_shutdown(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.pipe).poll_shutdown(context)
    }
}
