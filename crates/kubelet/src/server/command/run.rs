//! Runs it: starts the command or attaches to the container, and copies until it has ended and all
//! output is out.

use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use node_api::containers::{ExecRequest, Reader, Streams, TerminalSize, Writer};
use node_api::{ContainerId, Containers};
use serde::Deserialize;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;

use super::Remote;
use crate::server::chunk::{self, Output};

/// How long an ended command's output may be silent before it counts as complete: a child in the
/// background that holds the pipe open would keep the client forever.
const SILENCE_MAX: Duration = Duration::from_secs(1);
/// Of a JSON value on the resize stream.
const SIZE_MAX: usize = 1024;

pub(crate) enum Command {
    Exec(ContainerId, ExecRequest),
    Attach(ContainerId, ExecRequest),
}

impl Command {
    pub(crate) fn request(&self) -> &ExecRequest {
        match self {
            Self::Exec(_, request) | Self::Attach(_, request) => request,
        }
    }

    /// Dropping the future kills an exec'd command and leaves a container alone.
    pub(crate) async fn run(self, containers: Arc<dyn Containers>, remote: Remote) {
        let (started, what, is_exec) = match self {
            Self::Exec(id, request) => {
                (containers.exec(&id, request).await, "error executing command in container", true)
            }
            Self::Attach(id, request) => {
                (containers.attach(&id, request).await, "error attaching to container", false)
            }
        };
        let (error, form) = (remote.error.clone(), remote.form);
        let ended = match started {
            Ok(streams) => connect(streams, remote).await,
            Err(err) => Err(err),
        };
        let status = match ended {
            // How the container itself ended is not the business of who watched it.
            Ok(code) => form.exited(if is_exec { code } else { 0 }),
            Err(err) => form.failed(what, &err),
        };
        // The client is gone: nobody wants to know.
        let _ = error.finish(status).await;
    }
}

async fn connect(streams: Streams, remote: Remote) -> Result<i32, node_api::Error> {
    let Streams { stdin, stdout, stderr, resize, exit } = streams;
    let ended = CancellationToken::new();
    let outputs = async {
        let exit = async {
            let code = exit.await;
            ended.cancel();
            code
        };
        let stdout = copy_out(stdout, remote.stdout, &ended);
        let stderr = copy_out(stderr, remote.stderr, &ended);
        tokio::join!(exit, stdout, stderr).0
    };
    let inputs = async {
        tokio::join!(copy_in(remote.stdin, stdin), follow_size(remote.resize, resize.as_ref()));
        std::future::pending::<std::convert::Infallible>().await
    };
    tokio::select! {
        biased;
        code = outputs => code,
        never = inputs => match never {},
    }
}

async fn copy_out(reader: Option<Reader>, output: Option<Output>, ended: &CancellationToken) {
    let (Some(mut reader), Some(output)) = (reader, output) else { return };
    let mut buffer = BytesMut::with_capacity(chunk::SIZE);
    loop {
        buffer.reserve(chunk::SIZE);
        let read = tokio::select! {
            biased;
            read = reader.read_buf(&mut buffer) => read,
            () = silence_after(ended) => break,
        };
        // A terminal ends with an error, which says no more than that.
        if !matches!(read, Ok(1..)) {
            break;
        }
        if output.send(buffer.split().freeze()).await.is_err() {
            return;
        }
    }
    let _ = output.finish(Bytes::new()).await;
}

async fn silence_after(ended: &CancellationToken) {
    ended.cancelled().await;
    tokio::time::sleep(SILENCE_MAX).await;
}

async fn copy_in(input: Option<mpsc::Receiver<Bytes>>, writer: Option<Writer>) {
    let (Some(mut input), Some(mut writer)) = (input, writer) else { return };
    while let Some(bytes) = input.recv().await {
        let is_written = writer.write_all(&bytes).await.is_ok() && writer.flush().await.is_ok();
        if !is_written {
            // The command reads no more; what the client still sends is thrown away when `input` is
            // dropped.
            return;
        }
    }
    let _ = writer.shutdown().await;
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Size {
    #[serde(default)]
    width: u16,
    #[serde(default)]
    height: u16,
}

async fn follow_size(
    input: Option<mpsc::Receiver<Bytes>>,
    resize: Option<&watch::Sender<Option<TerminalSize>>>,
) {
    let (Some(mut input), Some(resize)) = (input, resize) else { return };
    let mut text = BytesMut::new();
    while let Some(bytes) = input.recv().await {
        text.extend_from_slice(&bytes);
        let mut values = serde_json::Deserializer::from_slice(&text).into_iter::<Size>();
        while let Some(Ok(Size { width, height })) = values.next() {
            if width > 0 && height > 0 {
                resize.send_replace(Some(TerminalSize { width, height }));
            }
        }
        let read = values.byte_offset();
        let _ = text.split_to(read.min(text.len()));
        // Not JSON, or not the beginning of it: start again with what comes next.
        if text.len() > SIZE_MAX {
            text.clear();
        }
    }
}
