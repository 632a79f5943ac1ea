//! What any bytes do to those who speak etcd's protocol: each function takes some, and panics if
//! they panic, hang or leave something running. The fuzz targets call them, and the test suite does
//! with random bytes.

mod requests;

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::join;
use h2::RecvStream;
use h2::client::SendRequest;
use http::Request;
use kvstore::memory::Memory;
use lifecycle::Tasks;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream};

use self::requests::Choices;
use crate::front::{self, Config};
use crate::wire::Status;
use crate::wire::frame::{Decoder, decode};
use crate::wire::messages::*;

/// Nothing here waits for anything outside: who takes longer hangs.
const PATIENCE: Duration = Duration::from_secs(30);
/// More than what one input leads to.
const PIPE_BYTES: usize = 1 << 20;
const CALLS_MAX: usize = 40;

/// The messages of a stream, in pieces: each byte at the front says how long the next piece is.
/// Both what clients send and what members answer.
pub fn messages(bytes: &[u8]) {
    let Some((method, mut rest)) = bytes.split_first() else { return };
    let mut decoder = Decoder::new(1 << 16);
    while let Some((length, more)) = rest.split_first() {
        let (piece, more) = more.split_at(more.len().min(usize::from(*length)));
        rest = more;
        decoder.push(Bytes::copy_from_slice(piece));
        while let Ok(Some(message)) = decoder.next_message() {
            let _ = match method % 16 {
                0 => decode::<RangeRequest>(message).map(drop),
                1 => decode::<PutRequest>(message).map(drop),
                2 => decode::<DeleteRangeRequest>(message).map(drop),
                3 => decode::<TxnRequest>(message).map(drop),
                4 => decode::<WatchRequest>(message).map(drop),
                5 => decode::<LeaseGrantRequest>(message).map(drop),
                6 => decode::<AuthenticateRequest>(message).map(drop),
                7 => decode::<RangeResponse>(message).map(drop),
                8 => decode::<TxnResponse>(message).map(drop),
                9 => decode::<WatchResponse>(message).map(drop),
                10 => decode::<LeaseTimeToLiveResponse>(message).map(drop),
                11 => decode::<LeaseLeasesResponse>(message).map(drop),
                12 => decode::<MemberListResponse>(message).map(drop),
                13 => decode::<StatusResponse>(message).map(drop),
                14 => decode::<SnapshotResponse>(message).map(drop),
                _ => decode::<AuthenticateResponse>(message).map(drop),
            };
        }
    }
}

/// A connection to the front: any bytes after HTTP/2's preface, or instead of it.
pub fn connection(bytes: &[u8]) {
    const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
    let Some((first, rest)) = bytes.split_first() else { return };
    serve(async |mut pipe: DuplexStream| {
        // The front may hang up at any time.
        if first % 8 != 0 {
            let _ = pipe.write_all(PREFACE).await;
        }
        let _ = pipe.write_all(rest).await;
        let _ = pipe.shutdown().await;
        let _ = pipe.read_to_end(&mut Vec::new()).await;
    });
}

/// Right calls of every method with messages that make no sense, one after the other over one
/// connection: each has an answer.
pub fn calls(bytes: &[u8]) {
    serve(async |pipe| {
        let (sender, connection) = h2::client::handshake(pipe).await.expect("the front answers");
        let calls = make_calls(sender, Choices(bytes));
        tokio::select! {
            biased;
            () = calls => {}
            ended = connection => panic!("the front hung up on right calls: {ended:?}"),
        }
    });
}

/// Streams stay open until all calls were made, so that watches have something to tell.
async fn make_calls(mut sender: SendRequest<Bytes>, mut choices: Choices<'_>) {
    let mut streams = Vec::new();
    for _ in 0..CALLS_MAX {
        let Some(call) = choices.call() else { return };
        let request = Request::post(format!("http://localhost{}", call.path))
            .header("content-type", "application/grpc")
            .body(())
            .expect("a right request");
        sender = sender.ready().await.expect("the connection goes on");
        let (response, mut body) =
            sender.send_request(request, false).expect("the connection goes on");
        for message in call.messages {
            // The front may have answered already.
            let _ = body.send_data(message, false);
        }
        let _ = body.send_data(Bytes::new(), true);
        let response = response.await.expect("every call has an answer");
        let is_over = Status::read_from(response.headers()).is_some();
        if call.is_stream {
            streams.push(response.into_body());
        } else if !is_over {
            let status = read_status(response.into_body()).await;
            assert!(status.is_some(), "{} ended without a status", call.path);
        }
    }
}

async fn read_status(mut body: RecvStream) -> Option<Result<(), Status>> {
    while let Some(piece) = body.data().await {
        let piece = piece.expect("the answer is whole");
        let _ = body.flow_control().release_capacity(piece.len());
    }
    let trailers = body.trailers().await.expect("the answer is whole");
    trailers.as_ref().and_then(Status::read_from)
}

/// A front over an empty store with one client; both end, and nothing is left.
fn serve<F: Future<Output = ()>>(client: impl FnOnce(DuplexStream) -> F) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime starts").block_on(async {
        let (ours, theirs) = tokio::io::duplex(PIPE_BYTES);
        let (tasks, config) = (Tasks::new(), Config::new(Vec::new(), "garbage"));
        let front = front::serve_connection(Arc::new(Memory::new()), &config, theirs, &tasks);
        let served = tokio::time::timeout(PATIENCE, join(front, client(ours)));
        served.await.expect("the front ends with its client");
        tasks.shutdown(PATIENCE).await.expect("nothing is left");
    });
}
