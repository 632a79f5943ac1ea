//! What any bytes do to those who read what the kubelet's clients send: each function takes some,
//! and panics if a reader does, hangs or breaks its law. The fuzz targets call them, and the test
//! suite does with random bytes.

use std::time::Duration;

use http::Method;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream};

use super::asked::{Area, Asked};
use super::query::Query;
use super::websocket::{self, Channels, Coding, Tunnel};
use super::{chunk, spdy};

/// More than what one input leads to.
const PIPE_BYTES: usize = 1 << 20;
/// Nothing here waits for anything outside: who takes longer hangs. The time is the test's.
const PATIENCE: Duration = Duration::from_secs(600);

/// Runs the server's side against a client that sends these bytes, reads all, and hangs up.
fn converse<F: Future<Output = ()>>(bytes: &[u8], serve: impl FnOnce(DuplexStream) -> F) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .expect("a runtime can be made");
    runtime.block_on(async {
        let (mut near, far) = tokio::io::duplex(PIPE_BYTES);
        let client = async {
            let _ = near.write_all(bytes).await;
            let _ = near.shutdown().await;
            let _ = near.read_to_end(&mut Vec::new()).await;
        };
        let both = async { tokio::join!(client, serve(far)) };
        tokio::time::timeout(PATIENCE, both).await.expect("it does not hang");
    });
}

/// A SPDY connection, as it is and through a tunnel.
pub fn spdy(bytes: &[u8]) {
    converse(bytes, speak_spdy);
    converse(bytes, |connection| speak_spdy(Tunnel::new(websocket::serve(connection))));
}

async fn speak_spdy(connection: impl tokio::io::AsyncRead + tokio::io::AsyncWrite + Send) {
    let (session, mut streams, keep) = spdy::session(connection);
    let take = async {
        // Streams are taken and dropped, as those are that make no sense.
        while let Some(stream) = streams.recv().await {
            drop(stream);
        }
        drop(keep);
    };
    let _ = tokio::join!(session.run(), take);
}

/// A WebSocket connection with channels, in both codings.
pub fn websocket(bytes: &[u8]) {
    for coding in [Coding::Binary, Coding::Base64] {
        converse(bytes, |connection| async move {
            let (keep, chunks) = chunk::queue();
            let mut channels = Channels::new(websocket::serve(connection), coding, chunks);
            let mut input = channels.input(0);
            let channels = channels.with_closing();
            let read = async {
                while input.recv().await.is_some() {}
                drop(keep);
            };
            let _ = tokio::join!(channels.run(), read);
        });
    }
}

/// A request's path and query. Whoever may run commands must be permitted to, however it is spelt.
pub fn path(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let (path, query) = text.split_once('?').unwrap_or((text, ""));
    let _ = Query::parse(Some(query)).flag("tty");
    let Ok(asked) = Asked::parse(path) else { return };
    assert!(!asked.area().subresources().is_empty());
    if matches!(asked, Asked::Exec(_) | Asked::Attach(_) | Asked::PortForward(_)) {
        assert_eq!((asked.area(), asked.verb(&Method::GET)), (Area::Proxy, "create"));
    }
}
