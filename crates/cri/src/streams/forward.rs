//! A port of a pod: two streams of one connection, one for bytes and one for what went wrong.

use bytes::{Bytes, BytesMut};
use lifecycle::Tasks;
use node_api::Error;
use node_api::containers::Connection;
use spdy::{Stream, chunk};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream};

use super::upgrade;

const PROTOCOL: &str = "portforward.k8s.io";
/// Bytes in flight each way.
const PIPE: usize = 64 * 1024;

/// What goes wrong later ends the connection: the caller sees an end, as with any connection.
pub(super) async fn open(
    url: &str,
    port: u16,
    tasks: &Tasks,
) -> Result<Box<dyn Connection>, Error> {
    let connection = upgrade::connect(url, PROTOCOL).await?;
    let (client, opener) = spdy::client(connection);
    let (ours, theirs) = tokio::io::duplex(PIPE);
    tasks.spawn("cri-forward", |shutdown| async move {
        let forward = async {
            let open = |kind: &str| {
                let headers = [
                    ("streamtype", kind.to_owned()),
                    ("port", port.to_string()),
                    ("requestid", "0".to_owned()),
                ];
                opener.open(headers.map(|(name, value)| (name.to_owned(), value)).into())
            };
            let (Ok(error), Ok(data)) = (open("error").await, open("data").await) else { return };
            let _ = error.output.finish(Bytes::new()).await;
            copy(theirs, data, error).await;
        };
        tokio::select! {
            biased;
            () = shutdown.cancelled() => {}
            _ = client.run() => {}
            () = forward => {}
        }
    });
    Ok(Box::new(ours))
}

async fn copy(local: DuplexStream, data: Stream, mut error: Stream) {
    let Stream { mut input, output, .. } = data;
    let (mut reader, mut writer) = tokio::io::split(local);
    let there = async {
        let mut buffer = BytesMut::with_capacity(chunk::SIZE);
        while let Ok(1..) = reader.read_buf(&mut buffer).await {
            if output.send(buffer.split().freeze()).await.is_err() {
                return;
            }
            buffer.reserve(chunk::SIZE);
        }
        let _ = output.finish(Bytes::new()).await;
    };
    let back = async {
        while let Some(piece) = input.recv().await {
            if writer.write_all(&piece).await.is_err() {
                return;
            }
        }
        let _ = writer.shutdown().await;
    };
    let failed = async {
        let said = error.input.recv().await;
        match said {
            Some(text) => {
                let text = String::from_utf8_lossy(&text).into_owned();
                tracing::debug!(error = text, "a port cannot be forwarded");
            }
            // It ends when all is well, too.
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        biased;
        _ = async { tokio::join!(there, back) } => {}
        () = failed => {}
    }
}
