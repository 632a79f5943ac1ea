//! Peers that do not keep to the protocol are refused, and nobody else notices.

use bytes::Bytes;
use etcd::wire::{Code, Status};
use http::Request;
use proptest::prelude::*;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::harness::{PATIENCE, Server};

const PATHS: &[&str] = &[
    "/etcdserverpb.KV/Range",
    "/etcdserverpb.KV/Put",
    "/etcdserverpb.KV/DeleteRange",
    "/etcdserverpb.KV/Txn",
    "/etcdserverpb.KV/Compact",
    "/etcdserverpb.Watch/Watch",
    "/etcdserverpb.Lease/LeaseGrant",
    "/etcdserverpb.Lease/LeaseKeepAlive",
    "/etcdserverpb.Maintenance/Status",
    "/etcdserverpb.Cluster/MemberList",
];

/// Sends any body to a method and returns the status of the answer.
async fn send(port: u16, path: &str, body: Bytes) -> Option<Result<(), Status>> {
    let tcp = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
    let (sender, connection) = h2::client::handshake(tcp).await.unwrap();
    let call = async {
        let request = Request::post(format!("http://localhost{path}"))
            .header("content-type", "application/grpc")
            .body(())
            .unwrap();
        let mut sender = sender.ready().await.unwrap();
        let (response, mut send) = sender.send_request(request, false).unwrap();
        send.send_data(body, true).unwrap();
        let response = response.await.unwrap();
        if let Some(status) = Status::read_from(response.headers()) {
            return Some(status);
        }
        let mut body = response.into_body();
        while let Some(piece) = body.data().await {
            let piece = piece.unwrap();
            let _ = body.flow_control().release_capacity(piece.len());
            // A watch that was created goes on for ever: that is an answer too.
            if path.contains("Watch") {
                return Some(Ok(()));
            }
        }
        body.trailers().await.unwrap().as_ref().and_then(Status::read_from)
    };
    tokio::select! {
        biased;
        status = tokio::time::timeout(PATIENCE, call) => status.unwrap(),
        _ = connection => panic!("the connection ended"),
    }
}

fn framed(message: &[u8]) -> Bytes {
    let mut bytes = vec![0];
    bytes.extend_from_slice(&u32::try_from(message.len()).unwrap().to_be_bytes());
    bytes.extend_from_slice(message);
    Bytes::from(bytes)
}

#[tokio::test]
async fn calls_that_make_no_sense_have_a_status() {
    let server = Server::memory().await;
    let check = async |path: &str, body: Bytes, expected: Code| {
        let status = send(server.port, path, body.clone()).await;
        let code = status.map(|it| it.map_or_else(|err| err.code, |()| Code::Ok));
        assert_eq!(code, Some(expected), "{path} {body:?}");
    };
    check("/etcdserverpb.KV/Nothing", framed(b""), Code::Unimplemented).await;
    check("/v3lockpb.Lock/Lock", framed(b""), Code::Unimplemented).await;
    check("/", framed(b""), Code::Unimplemented).await;
    check("/etcdserverpb.Cluster/MemberAdd", framed(b""), Code::Unimplemented).await;
    check("/etcdserverpb.KV/Put", framed(b""), Code::InvalidArgument).await;
    check("/etcdserverpb.KV/Put", Bytes::new(), Code::Internal).await;
    check("/etcdserverpb.KV/Put", Bytes::from_static(&[0, 0]), Code::Internal).await;
    check("/etcdserverpb.KV/Put", Bytes::from_static(&[0, 0, 0, 0, 9, 1]), Code::Internal).await;
    check("/etcdserverpb.KV/Put", Bytes::from_static(&[1, 0, 0, 0, 0]), Code::Unimplemented).await;
    let huge = Bytes::from_static(&[0, 0xff, 0xff, 0xff, 0xff]);
    check("/etcdserverpb.KV/Put", huge, Code::ResourceExhausted).await;
    check("/etcdserverpb.KV/Put", framed(&[0xff; 8]), Code::Internal).await;
    server.put("still", "served").await;
    server.stop().await;
}

/// A transaction in a transaction in a transaction: `request_txn` of `success`, many times.
fn nested(depth: usize) -> Vec<u8> {
    let mut message = Vec::new();
    for _ in 0..depth {
        for tag in [0x22, 0x12] {
            let mut outer = vec![tag];
            let mut len = message.len();
            while len >= 0x80 {
                outer.push((len & 0x7f) as u8 | 0x80);
                len >>= 7;
            }
            outer.push(len as u8);
            outer.extend_from_slice(&message);
            message = outer;
        }
    }
    message
}

#[tokio::test]
async fn deep_transactions_are_refused() {
    let server = Server::memory().await;
    for (depth, expected) in
        [(20, Code::InvalidArgument), (1000, Code::Internal), (20_000, Code::Internal)]
    {
        let status = send(server.port, "/etcdserverpb.KV/Txn", framed(&nested(depth))).await;
        assert_eq!(status.unwrap().unwrap_err().code, expected, "{depth}");
    }
    server.stop().await;
}

#[tokio::test]
async fn bytes_that_are_no_http_end_the_connection_alone() {
    let server = Server::memory().await;
    for garbage in [
        &b"\x16\x03\x01\x00\x05hello"[..],
        b"GET / HTTP/9\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\nnot a frame at all, whatever it is",
        b"\r\n\r\n",
    ] {
        let mut tcp = TcpStream::connect(("127.0.0.1", server.port)).await.unwrap();
        tcp.write_all(garbage).await.unwrap();
        let mut answer = Vec::new();
        let ended = tokio::time::timeout(PATIENCE, tcp.read_to_end(&mut answer)).await;
        // Whether it ends in order or by a reset does not matter.
        assert!(ended.is_ok());
    }
    server.put("still", "served").await;
    server.stop().await;
}

#[test]
fn random_messages_never_break_the_server() {
    let tokio = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let server = tokio.block_on(Server::memory());
    let config = ProptestConfig { cases: 200, ..ProptestConfig::default() };
    let mut runner = proptest::test_runner::TestRunner::new(config);
    // Small numbers, so that many messages are nearly right.
    let byte = prop_oneof![0u8..0x20, any::<u8>()];
    let input = (prop::sample::select(PATHS), prop::collection::vec(byte, 0..64));
    let run = runner.run(&input, |(path, message)| {
        let status = tokio.block_on(send(server.port, path, framed(&message)));
        prop_assert!(status.is_some());
        Ok(())
    });
    run.unwrap();
    tokio.block_on(server.put("still", "served"));
    tokio.block_on(server.stop());
}
