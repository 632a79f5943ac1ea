//! What etcd refuses: writes beyond its quota, requests that are too large, revisions that others
//! compacted.

use std::process::Command;
use std::time::Duration;

use bytes::Bytes;
use kvstore::{Error, KeyRange, Op, RangeRequest, Revision, Store as _, Txn, WatchRequest};

use crate::member::{Member, etcd, program};
use crate::proxy::Proxy;
use crate::{config, connect, eventually, value};

#[tokio::test]
async fn a_full_quota_makes_the_store_read_only_with_etcds_reason() {
    let Some(etcd) = etcd() else { return };
    let arguments = ["--quota-backend-bytes".to_owned(), "2000000".to_owned()];
    let member = Member::start_with(&etcd, "http", &arguments);
    let engine = connect(config(&[&member.client_url])).await;
    engine.txn(Txn::of(vec![Op::put("kept", "1")])).await.unwrap();
    let large = Bytes::from(vec![7; 512 << 10]);
    let mut refused = None;
    // etcd finds out how large it has become when it next writes its pages: up to a tenth of a
    // second late.
    for n in 0..100 {
        let put = Op::put(format!("large/{}", n % 8), large.clone());
        if let Err(err) = engine.txn(Txn::of(vec![put])).await {
            refused = Some(err);
            break;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let text = "the store is read-only: etcdserver: mvcc: database space exceeded";
    assert_eq!(refused.map(|it| it.to_string()).as_deref(), Some(text));
    let status = engine.status().await.unwrap();
    assert_eq!(status.read_only.as_deref(), Some("etcdserver: mvcc: database space exceeded"));
    assert_eq!(value(&*engine, "kept").await.as_deref(), Some("1"));
}

#[tokio::test]
async fn a_request_that_is_too_large_for_etcd_says_so() {
    let Some(etcd) = etcd() else { return };
    let member = Member::start(&etcd);
    let engine = connect(config(&[&member.client_url])).await;
    for size in [1_700_000, 6 << 20] {
        let put = Op::put("large", vec![7; size]);
        let refused = engine.txn(Txn::of(vec![put])).await;
        assert!(matches!(refused, Err(Error::TooLarge { .. })), "{size}: {refused:?}");
    }
    engine.txn(Txn::of(vec![Op::put("small", "1")])).await.unwrap();
}

#[tokio::test]
async fn compaction_by_others_ends_watches_that_need_what_is_gone() {
    let Some(etcd) = etcd() else { return };
    let member = Member::start(&etcd);
    let mut small = config(&[&member.client_url]);
    small.limits.ring_commits = 4;
    small.name = "reader".to_owned();
    let reader = connect(small).await;
    let writer = connect(config(&[&member.client_url])).await;
    let all = || KeyRange::prefix(b"k");
    // Waits at the start while the ring goes on without it.
    let mut slow = reader.watch(WatchRequest::new(all(), None)).await.unwrap();
    let mut idle = reader.watch(WatchRequest::new(KeyRange::prefix(b"idle"), None)).await.unwrap();
    let mut last = Revision(0);
    for n in 0..20 {
        last = writer.txn(Txn::of(vec![Op::put("k", n.to_string())])).await.unwrap().revision;
    }
    let caught_up = async || reader.revision() >= last && idle_progress(&*idle) >= last;
    eventually("the reader has seen all", caught_up).await;
    // Read from etcd, since the ring has forgotten it.
    let first = slow.next().await.unwrap();
    assert_eq!(first.events[0].revision, Revision(2));
    let mut behind = reader.watch(WatchRequest::new(all(), Some(Revision(3)))).await.unwrap();
    writer.compact(Revision(10)).await.unwrap();
    let ended = behind.next().await;
    let is_compacted = matches!(ended, Err(Error::Compacted { oldest: Revision(10), .. }));
    assert!(is_compacted, "{ended:?}");
    let range = RangeRequest::latest(all()).at(Revision(9));
    let gone = reader.range(range).await;
    let is_compacted =
        matches!(gone, Err(Error::Compacted { requested: Revision(9), oldest: Revision(10) }));
    assert!(is_compacted, "{gone:?}");
    assert_eq!(reader.oldest(), Revision(10));
    let last = writer.txn(Txn::of(vec![Op::put("idle", "1")])).await.unwrap().revision;
    let batch = idle.next().await.unwrap();
    assert_eq!((batch.events.len(), batch.revision), (1, last), "it had missed nothing");
}

#[tokio::test]
async fn a_history_that_was_compacted_while_nobody_could_read_it_ends_every_watch() {
    let Some(etcd) = etcd() else { return };
    let member = Member::start(&etcd);
    let proxy = Proxy::start(&member.client_url).await;
    let reader = connect(config(&[&proxy.url])).await;
    let mut config = config(&[&member.client_url]);
    config.name = "writer".to_owned();
    let writer = connect(config).await;
    let watch = async |prefix: &[u8], after| {
        reader.watch(WatchRequest::new(KeyRange::prefix(prefix), after)).await.unwrap()
    };
    let mut busy = watch(b"k", None).await;
    let mut idle = watch(b"idle", None).await;
    let mut future = watch(b"k", Some(Revision(12))).await;
    proxy.close();
    for n in 0..10 {
        writer.txn(Txn::of(vec![Op::put("k", n.to_string())])).await.unwrap();
    }
    writer.compact(Revision(9)).await.unwrap();
    proxy.open();
    for watch in [&mut busy, &mut idle] {
        let ended = watch.next().await;
        let is_compacted = matches!(ended, Err(Error::Compacted { oldest: Revision(9), .. }));
        assert!(is_compacted, "nobody knows what it has missed: {ended:?}");
    }
    let mut again = watch(b"k", Some(Revision(9))).await;
    let events = again.next().await.unwrap().events;
    assert_eq!(events.first().map(|it| it.revision), Some(Revision(10)));
    for _ in 0..2 {
        writer.txn(Txn::of(vec![Op::put("k", "last")])).await.unwrap();
    }
    let events = future.next().await.unwrap().events;
    assert_eq!(events.first().map(|it| it.revision), Some(Revision(13)));
}

fn idle_progress(watch: &dyn kvstore::Watch) -> Revision {
    watch.progress()
}

#[tokio::test]
async fn two_servers_see_each_other_and_etcdctl_sees_the_keys() {
    let Some(etcd) = etcd() else { return };
    let Some(ctl) = program("etcdctl", "XEBEC_TEST_ETCDCTL") else { return };
    let member = Member::start(&etcd);
    let one = connect(config(&[&member.client_url])).await;
    let mut config = config(&[&member.client_url]);
    config.name = "two".to_owned();
    let two = connect(config).await;
    for n in 0..20 {
        let (writer, reader) = if n % 2 == 0 { (&one, &two) } else { (&two, &one) };
        let txn = Txn::of(vec![Op::put("/registry/pods/default/a", n.to_string())]);
        let revision = writer.txn(txn).await.unwrap().revision;
        let seen = value(&**reader, "/registry/pods/default/a").await;
        assert_eq!(seen, Some(n.to_string()));
        assert!(reader.current().await.unwrap() >= revision);
        let request = WatchRequest::new(KeyRange::prefix(b"/registry/"), Some(Revision(1)));
        let mut watch = reader.watch(request).await.unwrap();
        watch.request_progress();
        let mut n_events = 0;
        loop {
            let batch = watch.next().await.unwrap();
            n_events += batch.events.len();
            if batch.revision >= revision {
                break;
            }
        }
        assert_eq!(n_events, n + 1, "progress does not overtake events");
    }
    let output = Command::new(ctl)
        .args(["--endpoints", &member.client_url])
        .args(["get", "--prefix", "--keys-only", "/"])
        .env("ETCDCTL_API", "3")
        .output()
        .unwrap();
    let keys = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(keys.trim(), "/registry/pods/default/a");
}

#[tokio::test]
async fn a_history_that_is_larger_than_a_message_comes_whole() {
    let Some(etcd) = etcd() else { return };
    let member = Member::start(&etcd);
    let writer = connect(config(&[&member.client_url])).await;
    for n in 0..60_u8 {
        let large = |it: u8| Op::put(format!("k/{it}"), vec![n; 50 << 10]);
        writer.txn(Txn::of(vec![large(1), large(2), large(3)])).await.unwrap();
    }
    // This one reads all of it at once, which etcd sends in pieces.
    let reader = connect(config(&[&member.client_url])).await;
    let request = WatchRequest::new(KeyRange::prefix(b"k/"), Some(Revision(1)));
    let mut watch = reader.watch(request).await.unwrap();
    let mut revision = Revision(1);
    while revision < Revision(61) {
        let batch = watch.next().await.unwrap();
        assert_eq!(batch.events.len() as u64, (batch.revision.0 - revision.0) * 3);
        revision = batch.revision;
    }
}
