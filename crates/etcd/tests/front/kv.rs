//! What is special to the front in ranges, puts and transactions. That they mean what etcd means is
//! in `same_as_etcd`.

use bytes::Bytes;
use etcd::wire::messages::*;
use etcd::wire::{Code, methods};

use crate::harness::{Server, bytes, refusal, watch_of};

#[tokio::test]
async fn writes_are_read_back_from_both_stores() {
    for server in [Server::memory().await, Server::embedded().await] {
        let first = server.put("a", "1").await;
        assert_eq!(server.put("a", "2").await, first + 1);
        let request = RangeRequest { key: bytes("a"), ..Default::default() };
        let response = server.channel.unary(methods::RANGE, &request).await.unwrap();
        assert_eq!(response.count, 1);
        let kv = &response.kvs[0];
        assert_eq!((&kv.value[..], kv.version), (&b"2"[..], 2));
        assert_eq!((kv.create_revision, kv.mod_revision), (first, first + 1));
        server.stop().await;
    }
}

#[tokio::test]
async fn the_ids_in_headers_stay_the_same() {
    let mut seen = Vec::new();
    for _ in 0..2 {
        let server = Server::memory().await;
        let response =
            server.channel.unary(methods::STATUS, &StatusRequest::default()).await.unwrap();
        let header = response.header.unwrap();
        assert_eq!(response.leader, header.member_id);
        seen.push((header.cluster_id, header.member_id));
        server.stop().await;
    }
    assert_eq!(seen[0], seen[1]);
    assert_ne!(seen[0].0, seen[0].1);
}

#[tokio::test]
async fn a_large_range_arrives_whole() {
    let server = Server::memory().await;
    let value = Bytes::from(vec![b'x'; 10_000]);
    for n in 0..1000 {
        let key = Bytes::from(format!("key-{n:04}"));
        let request = PutRequest { key, value: value.clone(), ..Default::default() };
        server.channel.unary(methods::PUT, &request).await.unwrap();
    }
    let request =
        RangeRequest { key: bytes("key-"), range_end: bytes("key."), ..Default::default() };
    let response = server.channel.unary(methods::RANGE, &request).await.unwrap();
    assert_eq!(response.kvs.len(), 1000);
    assert!(response.kvs.iter().all(|it| it.value == value));
    server.stop().await;
}

#[tokio::test]
async fn a_request_that_is_too_large_is_refused_as_etcd_does() {
    let server = Server::memory().await;
    let put = |len| PutRequest {
        key: bytes("k"),
        value: Bytes::from(vec![0; len]),
        ..Default::default()
    };
    server.channel.unary(methods::PUT, &put((3 << 19) - 100)).await.unwrap();
    let too_large = server.channel.unary(methods::PUT, &put(3 << 19)).await;
    let expected = (Code::InvalidArgument, "etcdserver: request is too large".to_owned());
    assert_eq!(refusal(too_large), expected);
    let far_too_large = server.channel.unary(methods::PUT, &put(4 << 20)).await;
    assert_eq!(refusal(far_too_large).0, Code::ResourceExhausted);
    server.put("k", "still served").await;
    server.stop().await;
}

#[tokio::test]
async fn many_calls_share_a_connection() {
    let server = Server::embedded().await;
    let puts = (0..500).map(|n| {
        let channel = server.channel.clone();
        async move { crate::harness::put(&channel, &format!("key-{n}"), "value").await }
    });
    let mut revisions = futures_util::future::join_all(puts).await;
    revisions.sort_unstable();
    revisions.dedup();
    assert_eq!(revisions.len(), 500);
    server.stop().await;
}

/// After a few writes the store carries them out in the connection's own thread.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_is_alone_is_answered_as_any() {
    let server = Server::embedded().await;
    let mut watch = server.watch(watch_of("a", 0)).await;
    watch.line().await;
    let first = server.put("a", "0").await;
    for n in 1..300 {
        let put = PutRequest {
            key: bytes("a"),
            value: bytes(&n.to_string()),
            prev_kv: true,
            ..Default::default()
        };
        let response = server.channel.unary(methods::PUT, &put).await.unwrap();
        let before = response.prev_kv.unwrap();
        assert_eq!((before.value, before.version), (bytes(&(n - 1).to_string()), n));
        assert_eq!(response.header.unwrap().revision, first + n);
        let unknown = PutRequest { lease: 4711, ..put };
        let refused = server.channel.unary(methods::PUT, &unknown).await;
        let expected = (Code::NotFound, "etcdserver: requested lease not found".to_owned());
        assert_eq!(refusal(refused), expected);
    }
    let mut revision = first;
    while revision < first + 300 {
        for event in watch.next().await.events {
            assert_eq!(event.kv.unwrap().mod_revision, revision, "each once, in order");
            revision += 1;
        }
    }
    server.stop().await;
}
