//! One HTTP/2 connection. Its short calls run inside its own task: a put starts no task, and all answers that are ready
//! leave in one write.

use std::pin::pin;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use h2::PingPong;
use lifecycle::{Shutdown, Tasks};
use tokio::io::{AsyncRead, AsyncWrite};

use super::authority::Lenient;
use super::listen::TIMEOUT_HELLO;
use super::peer::Peer;
use super::{Front, Limits, routes};

const STREAM_WINDOW: u32 = 1 << 20;
const CONNECTION_WINDOW: u32 = 4 << 20;
const FRAME_MAX: u32 = 64 << 10;
const HEADERS_MAX: u32 = 16 << 10;
/// What one call may have waiting in HTTP/2's own buffer.
const SEND_BUFFER: usize = 256 << 10;

pub(super) async fn run<S>(io: S, front: Arc<Front>, tasks: Tasks, shutdown: Shutdown)
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let handshake = h2::server::Builder::new()
        .initial_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .max_frame_size(FRAME_MAX)
        .max_header_list_size(HEADERS_MAX)
        .max_send_buffer_size(SEND_BUFFER)
        .max_concurrent_streams(front.limits.streams)
        .handshake::<_, Bytes>(Lenient::new(io));
    let Ok(Ok(mut connection)) = tokio::time::timeout(TIMEOUT_HELLO, handshake).await else {
        return;
    };
    let pings = connection.ping_pong().expect("taken once");
    let mut silence = pin!(await_silence(pings, front.limits));
    let mut stop = pin!(shutdown.cancelled());
    let mut drained = pin!(tokio::time::sleep(front.limits.timeout_drain));
    let mut is_draining = false;
    let peer = Arc::new(Peer::new(front.clone(), tasks));
    let mut calls = FuturesUnordered::new();
    loop {
        tokio::select! {
            biased;
            // Before the connection, which writes out what they leave.
            Some(()) = calls.next(), if !calls.is_empty() => {}
            accepted = connection.accept() => match accepted {
                Some(Ok((request, respond))) => {
                    calls.push(routes::answer(peer.clone(), request, respond));
                }
                Some(Err(_)) | None => return,
            },
            () = &mut stop, if !is_draining => {
                connection.graceful_shutdown();
                let deadline = tokio::time::Instant::now() + front.limits.timeout_drain;
                drained.as_mut().reset(deadline);
                is_draining = true;
            }
            () = &mut drained, if is_draining => return,
            () = &mut silence => return,
        }
    }
}

/// Returns when the peer did not answer a ping in time.
async fn await_silence(mut pings: PingPong, limits: Limits) {
    loop {
        tokio::time::sleep(limits.ping_interval).await;
        let pong = pings.ping(h2::Ping::opaque());
        match tokio::time::timeout(limits.timeout_ping, pong).await {
            Ok(Ok(_)) => {}
            Ok(Err(_)) | Err(_) => return,
        }
    }
}
