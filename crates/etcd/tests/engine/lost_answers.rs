//! Writes whose answer is lost, whose request is lost, and whose request comes late.

use std::sync::Arc;

use etcd::engine::Etcd;
use kvstore::{Compare, Error, KeyRange, Op, RangeRequest, Revision, Store as _, Txn, TxnResponse};

use crate::member::{Member, etcd};
use crate::proxy::Proxy;
use crate::{config, connect, eventually, value};

struct Setup {
    /// Asks through the proxy first, then directly.
    engine: Arc<Etcd>,
    /// Another server over the same cluster.
    other: Arc<Etcd>,
    proxy: Proxy,
    _member: Member,
}

async fn setup() -> Option<Setup> {
    let member = Member::start(&etcd()?);
    let proxy = Proxy::start(&member.client_url).await;
    let engine = connect(config(&[&proxy.url, &member.client_url])).await;
    let mut config = config(&[&member.client_url]);
    config.name = "other".to_owned();
    let other = connect(config).await;
    Some(Setup { engine, other, proxy, _member: member })
}

async fn mod_revision(engine: &Etcd, key: &str) -> Revision {
    let range = RangeRequest::latest(KeyRange::one(key.as_bytes()));
    engine.range(range).await.unwrap().entries[0].mod_revision
}

fn create(key: &'static str, value: &'static str) -> Txn {
    Txn::when(vec![Compare::absent(key.as_bytes())], vec![Op::put(key, value)])
}

/// Sends `txn` so that it happens and its answer is lost.
async fn lose_answer(setup: &Setup, txn: Txn, key: &str) -> Result<TxnResponse, Error> {
    setup.proxy.mute(true);
    let cut = async {
        eventually("it happens", async || value(&*setup.other, key).await.is_some()).await;
        setup.proxy.cut();
    };
    let (result, ()) = tokio::join!(setup.engine.txn(txn), cut);
    result
}

#[tokio::test]
async fn a_write_that_happened_is_found_and_not_repeated() {
    let Some(setup) = setup().await else { return };
    let response = lose_answer(&setup, create("a", "1"), "a").await.unwrap();
    assert!(response.succeeded);
    assert_eq!(response.revision, mod_revision(&setup.other, "a").await);
    assert_eq!(response.results, [kvstore::OpResult::Put { previous: None }]);
    let status = setup.other.status().await.unwrap();
    assert_eq!(status.n_keys, 2, "the key and the fence");
}

#[tokio::test]
async fn an_unconditional_write_that_happened_is_uncertain_and_not_repeated() {
    let Some(setup) = setup().await else { return };
    let result = lose_answer(&setup, Txn::of(vec![Op::put("a", "1")]), "a").await;
    assert!(matches!(result, Err(Error::Uncertain { .. })), "{result:?}");
    let range = RangeRequest::latest(KeyRange::one(b"a"));
    let entry = setup.other.range(range).await.unwrap().entries.remove(0);
    assert_eq!(entry.version, 1, "it was not written twice");
}

#[tokio::test]
async fn a_write_that_did_not_arrive_is_sent_again() {
    let Some(setup) = setup().await else { return };
    setup.proxy.deafen(true);
    let before = setup.proxy.bytes_from_client();
    let cut = async {
        let is_sent = async || setup.proxy.bytes_from_client() > before;
        eventually("the request is sent", is_sent).await;
        setup.proxy.cut();
    };
    let write = setup.engine.txn(Txn::of(vec![Op::put("a", "1")]));
    let (result, ()) = tokio::join!(write, cut);
    assert_eq!(result.unwrap().revision, mod_revision(&setup.other, "a").await);
}

#[tokio::test]
async fn a_write_that_comes_late_is_fenced_off() {
    let Some(setup) = setup().await else { return };
    setup.proxy.hold();
    // No answer comes in time, so it is fenced, not found, and sent again directly.
    let write = setup.engine.txn(Txn::of(vec![Op::put("a", "the first")]));
    let hold = async {
        eventually("it is under way", async || setup.proxy.holds("the first")).await;
        // The member is not to hear that it was given up.
        setup.proxy.deafen(true);
    };
    let (response, ()) = tokio::join!(write, hold);
    assert!(response.unwrap().succeeded);
    setup.other.txn(Txn::of(vec![Op::put("a", "2")])).await.unwrap();
    let last = setup.other.current().await.unwrap();
    // Now the first attempt arrives.
    let before = setup.proxy.bytes_from_server();
    setup.proxy.release();
    let is_answered = async || setup.proxy.bytes_from_server() > before;
    eventually("the late request is answered", is_answered).await;
    assert_eq!(value(&*setup.other, "a").await.as_deref(), Some("2"));
    assert_eq!(setup.other.current().await.unwrap(), last, "nothing was written");
}

#[tokio::test]
async fn many_lost_answers_are_settled_by_one_fence() {
    let Some(setup) = setup().await else { return };
    setup.proxy.mute(true);
    let keys: Vec<String> = (0..32).map(|it| format!("key/{it:02}")).collect();
    let write = |key: &String| {
        let txn = Txn::when(
            vec![Compare::absent(key.as_bytes())],
            vec![Op::put(key.clone(), key.clone())],
        );
        setup.engine.txn(txn)
    };
    let writes = futures_util::future::join_all(keys.iter().map(write));
    let cut = async {
        let all = RangeRequest::latest(KeyRange::prefix(b"key/"));
        let have_come =
            async || setup.other.range(all.clone()).await.unwrap().count == keys.len() as u64;
        eventually("all have happened", have_come).await;
        setup.proxy.cut();
    };
    let (results, ()) = tokio::join!(writes, cut);
    for (key, result) in keys.iter().zip(results) {
        assert_eq!(result.unwrap().revision, mod_revision(&setup.other, key).await, "{key}");
    }
    let current = setup.other.current().await.unwrap();
    assert_eq!(current, Revision(1 + 32 + 1), "each was written once, and the fence");
}

#[tokio::test]
async fn of_two_equal_writers_one_is_told_that_it_won() {
    let Some(setup) = setup().await else { return };
    setup.proxy.mute(true);
    let cut = async {
        eventually("one happens", async || value(&*setup.other, "a").await.is_some()).await;
        setup.proxy.cut();
    };
    let writes = async {
        tokio::join!(setup.engine.txn(create("a", "1")), setup.engine.txn(create("a", "1")))
    };
    let ((one, two), ()) = tokio::join!(writes, cut);
    assert!(one.unwrap().succeeded != two.unwrap().succeeded);
}

#[tokio::test]
async fn a_watch_survives_cuts_without_skipping_or_repeating() {
    let Some(setup) = setup().await else { return };
    let request = kvstore::WatchRequest::new(KeyRange::prefix(b"k"), None);
    let mut watch = setup.engine.watch(request).await.unwrap();
    let mut last = Revision(0);
    for n in 0..40 {
        last = setup.other.txn(Txn::of(vec![Op::put("k", n.to_string())])).await.unwrap().revision;
        if n % 8 == 0 {
            setup.proxy.cut();
        }
    }
    let mut values = Vec::new();
    while watch.progress() < last {
        let batch = watch.next().await.unwrap();
        values.extend(batch.events.into_iter().filter_map(|it| it.value).map(|it| it.value));
    }
    let expected: Vec<_> = (0..40).map(|it| it.to_string()).collect();
    assert_eq!(values, expected);
}
