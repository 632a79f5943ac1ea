//! The streams of exec and attach: one task per command moves bytes between SPDY's streams and the
//! pipes that the caller holds, and ends when the command does or when nobody holds an end any more.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::{Bytes, BytesMut};
use lifecycle::Tasks;
use node_api::Error;
use node_api::containers::{ExecRequest, Reader, Streams, TerminalSize};
use spdy::chunk::{self, Output};
use spdy::{Headers, Opener, Stream};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _, ReadBuf, SimplexStream};
use tokio::io::{ReadHalf, WriteHalf};
use tokio::sync::{mpsc, oneshot, watch};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::{status, upgrade};

const PROTOCOL: &str = "v4.channel.k8s.io";
/// Bytes in flight of each stream.
const PIPE: usize = 64 * 1024;
/// A status has a few hundred bytes.
const STATUS_MAX: usize = 64 * 1024;

/// Our ends of the server's streams.
struct Opened {
    error: Stream,
    stdin: Option<Stream>,
    stdout: Option<Stream>,
    stderr: Option<Stream>,
    resize: Option<Stream>,
}

pub(super) async fn open(
    url: &str,
    request: &ExecRequest,
    tasks: &Tasks,
) -> Result<Streams, Error> {
    let connection = upgrade::connect(url, PROTOCOL).await?;
    let (client, opener) = spdy::client(connection);
    let (done, exit) = oneshot::channel();
    let abandoned = CancellationToken::new();
    let guard = Arc::new(abandoned.clone().drop_guard());
    let (ends, pipes) = pipes(request, &guard);
    let wanted = request.clone();
    tasks.spawn("cri-command", |shutdown| async move {
        let mut session = std::pin::pin!(client.run());
        let mut command = std::pin::pin!(run(&opener, &wanted, pipes));
        let ended = tokio::select! {
            biased;
            () = shutdown.cancelled() => return,
            () = abandoned.cancelled() => return,
            ended = &mut command => ended,
            _ = &mut session => command.await,
        };
        // Nobody waits for it any more: nobody needs to know.
        let _ = done.send(ended);
    });
    let Ends { stdin, stdout, stderr, resize } = ends;
    let exit = async move {
        let ended = exit.await;
        drop(guard);
        ended.unwrap_or_else(|_| status::parse(b""))
    };
    Ok(Streams { stdin, stdout, stderr, resize, exit: Box::pin(exit) })
}

struct Ends {
    stdin: Option<node_api::containers::Writer>,
    stdout: Option<Reader>,
    stderr: Option<Reader>,
    resize: Option<watch::Sender<Option<TerminalSize>>>,
}

/// The task's ends.
struct Pipes {
    stdin: Option<ReadHalf<SimplexStream>>,
    stdout: Option<WriteHalf<SimplexStream>>,
    stderr: Option<WriteHalf<SimplexStream>>,
    resize: Option<watch::Receiver<Option<TerminalSize>>>,
}

fn pipes(request: &ExecRequest, guard: &Arc<DropGuard>) -> (Ends, Pipes) {
    let output = |wanted: bool| {
        let (reader, writer) = tokio::io::simplex(PIPE);
        let reader: Reader = Box::new(Held { inner: reader, _guard: guard.clone() });
        if wanted { (Some(reader), Some(writer)) } else { (None, None) }
    };
    let (stdin, stdin_writer) = match request.stdin {
        true => {
            let (reader, writer) = tokio::io::simplex(PIPE);
            let writer: node_api::containers::Writer = Box::new(Input(writer));
            (Some(reader), Some(writer))
        }
        false => (None, None),
    };
    let (stdout_reader, stdout) = output(request.stdout);
    let (stderr_reader, stderr) = output(request.stderr && !request.tty);
    let resize = request.tty.then(|| watch::channel(None));
    let (sizes, resize) = resize.unzip();
    let ends =
        Ends { stdin: stdin_writer, stdout: stdout_reader, stderr: stderr_reader, resize: sizes };
    (ends, Pipes { stdin, stdout, stderr, resize })
}

/// Moves everything; the exit is told when the server has told it and all output is in the pipes.
async fn run(opener: &Opener, request: &ExecRequest, pipes: Pipes) -> Result<i32, Error> {
    let opened = open_streams(opener, request).await;
    let opened = opened.ok_or_else(|| Error::Refused("command: the runtime hung up".to_owned()))?;
    let Opened { mut error, stdin, stdout, stderr, resize } = opened;
    // Nothing is ever sent there.
    let _ = error.output.finish(Bytes::new()).await;
    let inputs = async {
        tokio::join!(feed(pipes.stdin, stdin), tell_sizes(pipes.resize, resize));
        std::future::pending::<()>().await;
    };
    let outputs = async {
        let status = collect(&mut error.input);
        let (status, (), ()) =
            tokio::join!(status, drain(stdout, pipes.stdout), drain(stderr, pipes.stderr));
        status
    };
    tokio::select! {
        biased;
        status = outputs => status::parse(&status),
        () = inputs => status::parse(b""),
    }
}

/// In the order in which upstream's clients open them. `None`: the connection is gone.
async fn open_streams(opener: &Opener, request: &ExecRequest) -> Option<Opened> {
    let open = async |kind: &str, wanted: bool| {
        let headers = Headers::from([("streamtype".to_owned(), kind.to_owned())]);
        match wanted {
            true => opener.open(headers).await.map(Some).ok(),
            false => Some(None),
        }
    };
    Some(Opened {
        error: open("error", true).await??,
        stdin: open("stdin", request.stdin).await?,
        stdout: open("stdout", request.stdout).await?,
        stderr: open("stderr", request.stderr && !request.tty).await?,
        resize: open("resize", request.tty).await?,
    })
}

async fn feed(from: Option<ReadHalf<SimplexStream>>, to: Option<Stream>) {
    let (Some(mut from), Some(to)) = (from, to) else { return };
    let mut buffer = BytesMut::with_capacity(chunk::SIZE);
    while let Ok(1..) = from.read_buf(&mut buffer).await {
        if to.output.send(buffer.split().freeze()).await.is_err() {
            return;
        }
        buffer.reserve(chunk::SIZE);
    }
    let _ = to.output.finish(Bytes::new()).await;
}

async fn tell_sizes(from: Option<watch::Receiver<Option<TerminalSize>>>, to: Option<Stream>) {
    let (Some(mut from), Some(to)) = (from, to) else { return };
    let first = *from.borrow_and_update();
    let mut sent = send_size(first, &to.output).await;
    while sent && from.changed().await.is_ok() {
        let size = *from.borrow_and_update();
        sent = send_size(size, &to.output).await;
    }
}

async fn send_size(size: Option<TerminalSize>, to: &Output) -> bool {
    let Some(TerminalSize { width, height }) = size else { return true };
    let text = format!("{{\"Width\":{width},\"Height\":{height}}}\n");
    to.send(Bytes::from(text)).await.is_ok()
}

/// To its end, also when nobody reads it any more: else the others would wait for it.
async fn drain(from: Option<Stream>, to: Option<WriteHalf<SimplexStream>>) {
    let (Some(mut from), Some(mut to)) = (from, to) else { return };
    let _ = from.output.finish(Bytes::new()).await;
    let mut is_read = true;
    while let Some(piece) = from.input.recv().await {
        is_read = is_read && to.write_all(&piece).await.is_ok();
    }
    let _ = to.shutdown().await;
}

async fn collect(from: &mut mpsc::Receiver<Bytes>) -> Vec<u8> {
    let mut text = Vec::new();
    while let Some(piece) = from.recv().await {
        let room = STATUS_MAX - text.len();
        text.extend_from_slice(&piece[..piece.len().min(room)]);
    }
    text
}

/// A reader whose last holder ends the command.
struct Held {
    inner: ReadHalf<SimplexStream>,
    _guard: Arc<DropGuard>,
}

impl AsyncRead for Held {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.inner).poll_read(context, buffer)
    }
}

/// Dropping it ends the command's input.
struct Input(WriteHalf<SimplexStream>);

impl Drop for Input {
    fn drop(&mut self) {
        let mut context = Context::from_waker(std::task::Waker::noop());
        // A simplex pipe closes at once.
        let _ = tokio::io::AsyncWrite::poll_shutdown(Pin::new(&mut self.0), &mut context);
    }
}

impl tokio::io::AsyncWrite for Input {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<std::io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(context, bytes)
    }

    fn poll_flush(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(context)
    }

    fn poll_shutdown(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(context)
    }
}
