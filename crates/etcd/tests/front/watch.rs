//! Watch streams.

use bytes::Bytes;
use etcd::front::{Config, Limits};
use etcd::wire::messages::*;
use etcd::wire::methods;
use kvstore::Revision;
use kvstore::memory::Memory;
use std::sync::Arc;
use std::time::Duration;

use crate::harness::{Server, bytes, config, watch_of};

#[tokio::test]
async fn many_watches_share_a_stream() {
    for server in [Server::memory().await, Server::embedded().await] {
        server.put("a", "0").await;
        let mut stream = server.watch(watch_of("a", 0)).await;
        assert_eq!(stream.line().await, "#0 @2 created");
        stream.create(WatchCreateRequest { prev_kv: true, ..watch_of("a", 2) }).await;
        assert_eq!(stream.line().await, "#1 @2 created");
        assert_eq!(stream.line().await, "#1 @2 PUT a=0");
        stream.create(WatchCreateRequest { watch_id: 9, ..watch_of("b", 0) }).await;
        assert_eq!(stream.line().await, "#9 @2 created");
        server.put("a", "1").await;
        let mut lines = vec![stream.line().await, stream.line().await];
        lines.sort();
        assert_eq!(lines, ["#0 @3 PUT a=1", "#1 @3 PUT a=1 (was 0)"]);
        stream.cancel(0).await;
        assert_eq!(stream.line().await, "#0 @3 canceled");
        stream.cancel(9).await;
        assert_eq!(stream.line().await, "#9 @3 canceled");
        server.put("b", "1").await;
        let delete = DeleteRangeRequest { key: bytes("a"), ..Default::default() };
        server.channel.unary(methods::DELETE_RANGE, &delete).await.unwrap();
        assert_eq!(stream.line().await, "#1 @5 DELETE a (was 1)");
        server.stop().await;
    }
}

#[tokio::test]
async fn impossible_watches_are_refused() {
    let server = Server::memory().await;
    let mut stream = server.watch(WatchCreateRequest { watch_id: 4, ..watch_of("a", 0) }).await;
    stream.next().await;
    let mut check = async |request: WatchCreateRequest, why: &str| {
        stream.create(request).await;
        let response = stream.next().await;
        assert!(response.created && response.canceled);
        assert_eq!((response.watch_id, response.cancel_reason.as_str()), (-1, why));
    };
    let twice = WatchCreateRequest { watch_id: 4, ..watch_of("a", 0) };
    check(twice, "mvcc: duplicate watch ID provided on the WatchStream").await;
    let empty = WatchCreateRequest { key: bytes("b"), range_end: bytes("a"), ..Default::default() };
    check(empty, "mvcc: watcher range is empty").await;
    let negative = watch_of("a", -1);
    check(negative, "etcdserver: mvcc: required revision has been compacted").await;
    server.stop().await;
}

#[tokio::test]
async fn a_watch_from_the_compacted_past_is_canceled() {
    for server in [Server::memory().await, Server::embedded().await] {
        for n in 0..4 {
            server.put("a", &n.to_string()).await;
        }
        server.store.compact(Revision(4)).await.unwrap();
        let mut stream = server.watch(watch_of("a", 2)).await;
        assert_eq!(stream.line().await, "#0 @5 created");
        assert_eq!(stream.line().await, "#0 @5 canceled compacted 4");
        stream.create(watch_of("a", 5)).await;
        assert_eq!(stream.line().await, "#1 @5 created");
        assert_eq!(stream.line().await, "#1 @5 PUT a=3");
        server.stop().await;
    }
}

#[tokio::test]
async fn a_watch_may_begin_in_the_future() {
    let server = Server::memory().await;
    let mut stream = server.watch(watch_of("a", 4)).await;
    assert_eq!(stream.line().await, "#0 @1 created");
    // Progress now would send a client that resumes from it back to before its start.
    stream.ask_progress().await;
    for n in 2..=5 {
        server.put("a", &n.to_string()).await;
    }
    let mut seen = String::new();
    while !seen.contains("a=5") {
        seen.push_str(&stream.line().await);
    }
    assert!(!seen.contains("a=3") && seen.contains("a=4"), "{seen}");
    stream.ask_progress().await;
    assert_eq!(stream.line().await, "#-1 @5");
    server.stop().await;
}

#[tokio::test]
async fn progress_is_for_the_whole_stream_and_never_ahead() {
    for server in [Server::memory().await, Server::embedded().await] {
        let mut stream = server.watch(watch_of("a", 0)).await;
        stream.line().await;
        stream.create(watch_of("b", 0)).await;
        stream.line().await;
        for round in 0..50 {
            server.put("a", "x").await;
            server.put("b", "x").await;
            let last = server.put("c", "x").await;
            stream.ask_progress().await;
            let mut events = 0;
            loop {
                let response = stream.next().await;
                if response.watch_id == -1 {
                    assert!(response.events.is_empty());
                    assert_eq!(response.header.unwrap().revision, last, "round {round}");
                    break;
                }
                events += response.events.len();
            }
            assert_eq!(events, 2, "round {round}");
        }
        server.stop().await;
    }
}

#[tokio::test]
async fn quiet_watches_that_asked_are_told_how_far_they_are() {
    let limits = Limits { progress_interval: Duration::from_millis(50), ..Limits::default() };
    let config = Config { limits, ..config() };
    let server = Server::over(Arc::new(Memory::new()), config).await;
    let asking = WatchCreateRequest { progress_notify: true, ..watch_of("a", 0) };
    let mut stream = server.watch(asking).await;
    stream.line().await;
    stream.create(watch_of("b", 0)).await;
    server.put("c", "1").await;
    loop {
        let line = stream.line().await;
        assert!(["#1 @1 created", "#1 @2 created", "#0 @1", "#0 @2"].contains(&line.as_str()));
        if line == "#0 @2" {
            break;
        }
    }
    server.stop().await;
}

#[tokio::test]
async fn filters_leave_out_kinds_of_events() {
    let server = Server::memory().await;
    let no_puts =
        WatchCreateRequest { filters: vec![FilterType::NoPut as i32], ..watch_of("a", 0) };
    let mut stream = server.watch(no_puts).await;
    stream.line().await;
    server.put("a", "1").await;
    let delete = DeleteRangeRequest { key: bytes("a"), ..Default::default() };
    server.channel.unary(methods::DELETE_RANGE, &delete).await.unwrap();
    assert_eq!(stream.line().await, "#0 @3 DELETE a");
    server.stop().await;
}

fn large_txn(n_ops: usize, len: usize) -> TxnRequest {
    let put = |n: usize| PutRequest {
        key: Bytes::from(format!("big-{n}")),
        value: Bytes::from(vec![b'x'; len]),
        ..Default::default()
    };
    let success =
        (0..n_ops).map(|n| RequestOp { request: Some(RequestOpUnion::Put(put(n))) }).collect();
    TxnRequest { success, ..Default::default() }
}

#[tokio::test]
async fn a_large_transaction_comes_in_fragments_to_who_asked() {
    let limits = Limits { request_bytes: 100 << 10, ..Limits::default() };
    let server = Server::over(Arc::new(Memory::new()), Config { limits, ..config() }).await;
    let mut whole = server.watch(WatchCreateRequest { prev_kv: true, ..watch_of("big", 0) }).await;
    whole.line().await;
    let mut cut = server
        .watch(WatchCreateRequest { fragment: true, prev_kv: true, ..watch_of("big", 0) })
        .await;
    cut.line().await;
    // With the previous values the second one is twice as large as a request may be.
    for _ in 0..2 {
        server.channel.unary(methods::TXN, &large_txn(9, 10 << 10)).await.unwrap();
    }
    assert_eq!(whole.next().await.events.len(), 9);
    assert_eq!(whole.next().await.events.len(), 9);
    let mut fragments = Vec::new();
    while fragments.iter().map(|it: &WatchResponse| it.events.len()).sum::<usize>() < 18 {
        fragments.push(cut.next().await);
    }
    assert!(!fragments.last().unwrap().fragment);
    assert!(fragments.iter().any(|it| it.fragment));
    server.stop().await;
}

#[tokio::test]
async fn a_reader_that_stops_holds_up_nobody_and_then_gets_everything() {
    let server = Server::memory().await;
    let mut slow = server.watch(watch_of("a", 0)).await;
    slow.line().await;
    let value = "x".repeat(100_000);
    // Far more than the windows hold.
    for _ in 0..100 {
        server.put("a", &value).await;
    }
    let mut quick = server.watch(watch_of("a", 2)).await;
    quick.line().await;
    for stream in [&mut quick, &mut slow] {
        let mut revisions = Vec::new();
        while revisions.len() < 100 {
            let response = stream.next().await;
            revisions.extend(response.events.iter().map(|it| it.kv.as_ref().unwrap().mod_revision));
        }
        assert!(revisions.iter().copied().eq(2..=101));
    }
    server.stop().await;
}
