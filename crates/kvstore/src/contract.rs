//! The contract of `Store` as checks: every engine must pass them all. They panic with the rule that is
//! broken. Each check gets a fresh, empty store.

use std::sync::Arc;

use bytes::Bytes;
use futures_util::future::{BoxFuture, join_all};

use crate::{
    Batch, Compare, Error, Event, KeyRange, KeyValue, Op, RangeRequest, RangeResponse, Revision,
    Store, Txn, TxnResponse, Watch, WatchRequest,
};

type Shared = Arc<dyn Store>;
pub type Check = fn(Shared) -> BoxFuture<'static, ()>;

/// Every check with its name, so that a harness can run them one by one.
pub const ALL: &[(&str, Check)] = &[
    ("revisions grow by one from one", |it| Box::pin(revisions_grow_by_one_from_one(it))),
    ("deleting nothing commits nothing", |it| Box::pin(deleting_nothing_commits_nothing(it))),
    ("entries know their history", |it| Box::pin(entries_know_their_history(it))),
    ("a stamped value tells its revision", |it| Box::pin(a_stamped_value_tells_its_revision(it))),
    ("a failed compare changes nothing", |it| Box::pin(a_failed_compare_changes_nothing(it))),
    ("one of many rivals wins", |it| Box::pin(one_of_many_rivals_wins(it))),
    ("ranges are sorted and limited", |it| Box::pin(ranges_are_sorted_and_limited(it))),
    ("old revisions stay readable", |it| Box::pin(old_revisions_stay_readable(it))),
    ("a watch tells what changed", |it| Box::pin(a_watch_tells_what_changed(it))),
    ("a watch keeps transactions whole", |it| Box::pin(a_watch_keeps_transactions_whole(it))),
    ("a watch joins live without gap", |it| Box::pin(a_watch_joins_live_without_gap(it))),
    ("an idle watch sleeps and progresses", |it| Box::pin(an_idle_watch_sleeps(it))),
    ("a slow watch misses nothing", |it| Box::pin(a_slow_watch_misses_nothing(it))),
    ("compaction forgets only the past", |it| Box::pin(compaction_forgets_only_the_past(it))),
    ("compaction ends watches behind it", |it| Box::pin(compaction_ends_watches_behind_it(it))),
];

/// Runs every check on a store of its own.
pub async fn check_all(make: impl Fn() -> Shared) {
    for (name, check) in ALL {
        tracing::info!(name, "checking");
        check(make()).await;
    }
}

fn bytes(text: &str) -> Bytes {
    Bytes::copy_from_slice(text.as_bytes())
}

pub fn put(key: &str, value: &str) -> Op {
    Op::put(bytes(key), bytes(value))
}

pub fn delete(key: &str) -> Op {
    Op::delete(key.as_bytes())
}

/// Commits without compares; returns the revision.
pub async fn commit(store: &Shared, writes: Vec<Op>) -> Revision {
    let response = store.txn(Txn::of(writes)).await.expect("a write succeeds");
    assert!(response.succeeded, "a transaction without compares was refused");
    response.revision
}

async fn read(store: &Shared, prefix: &str, at: Option<u64>) -> Result<RangeResponse, Error> {
    let range = KeyRange::prefix(prefix.as_bytes());
    store.range(RangeRequest { at: at.map(Revision), ..RangeRequest::latest(range) }).await
}

async fn watch(store: &Shared, prefix: &str, after: Option<u64>) -> Box<dyn Watch> {
    let range = KeyRange::prefix(prefix.as_bytes());
    store
        .watch(WatchRequest::new(range, after.map(Revision)))
        .await
        .expect("the revision is readable")
}

/// `a=1@2#1` for each entry: key, value, last written, version.
fn text(entries: &[KeyValue]) -> String {
    let entry = |it: &KeyValue| {
        let (key, value) = (String::from_utf8_lossy(&it.key), String::from_utf8_lossy(&it.value));
        format!("{key}={value}@{}#{}", it.mod_revision.0, it.version)
    };
    entries.iter().map(entry).collect::<Vec<_>>().join(" ")
}

/// `3:a=1>2` for each event: revision, key, previous and new value.
fn events_text(events: &[Event]) -> String {
    let value = |it: &Option<KeyValue>| {
        it.as_ref().map(|it| String::from_utf8_lossy(&it.value).into_owned()).unwrap_or_default()
    };
    let event = |it: &Event| {
        let key = String::from_utf8_lossy(&it.key);
        format!("{}:{key}={}>{}", it.revision.0, value(&it.previous), value(&it.value))
    };
    events.iter().map(event).collect::<Vec<_>>().join(" ")
}

/// The events up to `through`, and that no batch claims more than it delivered.
pub async fn events_through(watch: &mut dyn Watch, through: Revision) -> Vec<Event> {
    let mut events: Vec<Event> = Vec::new();
    while watch.progress() < through {
        let Batch { events: batch, revision } = watch.next().await.expect("history is there");
        let is_ordered = batch.iter().all(|it| it.revision <= revision);
        assert!(is_ordered, "a batch has events up to its revision only");
        assert!(watch.progress() >= revision, "progress includes what was delivered");
        events.extend(batch);
    }
    events
}

async fn revisions_grow_by_one_from_one(store: Shared) {
    assert_eq!((store.revision(), store.oldest()), (Revision(1), Revision(1)));
    assert_eq!(commit(&store, vec![put("a", "1")]).await, Revision(2));
    assert_eq!(commit(&store, vec![put("b", "1"), put("c", "1")]).await, Revision(3));
    assert_eq!(commit(&store, vec![delete("a"), delete("b")]).await, Revision(4));
    assert_eq!(store.revision(), Revision(4));
    let response = read(&store, "", None).await.expect("the present is readable");
    assert_eq!((text(&response.entries).as_str(), response.revision), ("c=1@3#1", Revision(4)));
}

async fn deleting_nothing_commits_nothing(store: Shared) {
    commit(&store, vec![put("a", "1")]).await;
    assert_eq!(commit(&store, vec![delete("x"), delete("y")]).await, Revision(2));
    assert_eq!(commit(&store, vec![]).await, Revision(2));
    assert_eq!(commit(&store, vec![delete("x"), put("b", "1")]).await, Revision(3));
    let events = events_through(&mut *watch(&store, "", Some(2)).await, Revision(3)).await;
    assert_eq!(events_text(&events), "3:b=>1");
}

async fn entries_know_their_history(store: Shared) {
    commit(&store, vec![put("a", "1")]).await;
    commit(&store, vec![put("b", "1")]).await;
    commit(&store, vec![put("a", "2")]).await;
    let created = read(&store, "a", None).await.expect("readable").entries[0].create_revision;
    assert_eq!(created, Revision(2));
    commit(&store, vec![delete("a")]).await;
    commit(&store, vec![put("a", "3")]).await;
    let entries = read(&store, "", None).await.expect("readable").entries;
    assert_eq!(text(&entries), "a=3@6#1 b=1@3#1");
    assert_eq!(entries[0].create_revision, Revision(6));
}

async fn a_stamped_value_tells_its_revision(store: Shared) {
    let stamped = |at| Op::put_stamped("a", "<>", at);
    commit(&store, vec![stamped(1)]).await;
    commit(&store, vec![stamped(0)]).await;
    let entries = read(&store, "", None).await.expect("readable").entries;
    assert_eq!(text(&entries), "a=3<>@3#2");
    let events = events_through(&mut *watch(&store, "a", Some(1)).await, Revision(3)).await;
    assert_eq!(events_text(&events), "2:a=><2> 3:a=<2>>3<>");
}

async fn a_failed_compare_changes_nothing(store: Shared) {
    commit(&store, vec![put("a", "1")]).await;
    let (a, b) = (b"a".as_ref(), b"b".as_ref());
    let refused = [
        vec![Compare::absent(a)],
        vec![Compare::mod_revision(a, Revision(1))],
        vec![Compare::mod_revision(b, Revision(2))],
        vec![Compare::absent(b), Compare::absent(a)],
    ];
    for compares in refused {
        let txn = Txn::when(compares, vec![put("a", "2"), put("b", "2")]);
        let response = store.txn(txn).await.expect("a refusal is an answer");
        let expected = TxnResponse { revision: Revision(2), succeeded: false, results: vec![] };
        assert_eq!(response, expected);
    }
    let compares = vec![Compare::mod_revision(a, Revision(2)), Compare::absent(b)];
    let response = store.txn(Txn::when(compares, vec![put("b", "1")])).await;
    let response = response.expect("a write succeeds");
    assert_eq!((response.succeeded, response.revision), (true, Revision(3)));
}

async fn one_of_many_rivals_wins(store: Shared) {
    let rivals = (0..32).map(|n| {
        let compares = vec![Compare::absent(b"leader")];
        let mine = put(&format!("rival/{n}"), "won");
        store.txn(Txn::when(compares, vec![put("leader", &n.to_string()), mine]))
    });
    let outcomes = join_all(rivals).await;
    let winners: Vec<usize> = outcomes
        .iter()
        .enumerate()
        .filter(|(_, it)| matches!(it, Ok(it) if it.succeeded))
        .map(|(n, _)| n)
        .collect();
    assert_eq!(winners.len(), 1, "{winners:?}");
    let response = read(&store, "rival/", None).await.expect("readable");
    assert_eq!(text(&response.entries), format!("rival/{}=won@2#1", winners[0]));
}

async fn ranges_are_sorted_and_limited(store: Shared) {
    for key in ["b/2", "a", "b/1", "c", "b/3"] {
        commit(&store, vec![put(key, "")]).await;
    }
    let check = async |range: KeyRange, limit: usize, expected: &str, count: u64| {
        let response =
            store.range(RangeRequest::latest(range).limit(limit)).await.expect("readable");
        let keys: Vec<_> =
            response.entries.iter().map(|it| String::from_utf8_lossy(&it.key)).collect();
        assert_eq!((keys.join(" ").as_str(), response.count), (expected, count));
        assert_eq!(response.has_more, (response.entries.len() as u64) < count);
    };
    let range = |start: &str, end: &str| KeyRange { start: bytes(start), end: bytes(end) };
    check(KeyRange::prefix(b"b/"), 0, "b/1 b/2 b/3", 3).await;
    check(KeyRange::prefix(b"b/"), 2, "b/1 b/2", 3).await;
    check(KeyRange::prefix(b"b/"), 3, "b/1 b/2 b/3", 3).await;
    check(KeyRange::one(b"b/1"), 0, "b/1", 1).await;
    check(range("b/2", ""), 0, "b/2 b/3 c", 3).await;
    check(range("a", "b/2"), 0, "a b/1", 2).await;
    check(range("x", "a"), 0, "", 0).await;
}

async fn old_revisions_stay_readable(store: Shared) {
    commit(&store, vec![put("a", "1"), put("b", "1")]).await;
    commit(&store, vec![put("a", "2")]).await;
    commit(&store, vec![delete("b"), put("c", "1")]).await;
    commit(&store, vec![put("b", "2"), delete("a")]).await;
    let expected = ["", "a=1@2#1 b=1@2#1", "a=2@3#2 b=1@2#1", "a=2@3#2 c=1@4#1", "b=2@5#1 c=1@4#1"];
    for (at, expected) in (1..).zip(expected) {
        let response = read(&store, "", Some(at)).await.expect("not compacted");
        assert_eq!((text(&response.entries).as_str(), response.revision), (expected, Revision(at)));
    }
    let range = KeyRange::prefix(b"");
    let request = RangeRequest::latest(range).at(Revision(3)).limit(1);
    let response = store.range(request).await.expect("not compacted");
    assert_eq!((text(&response.entries).as_str(), response.count), ("a=2@3#2", 2));
    let future = read(&store, "", Some(6)).await;
    assert!(matches!(future, Err(Error::Future { current: Revision(5), .. })), "{future:?}");
}

async fn a_watch_tells_what_changed(store: Shared) {
    commit(&store, vec![put("a/1", "x")]).await;
    let mut live = watch(&store, "a/", None).await;
    commit(&store, vec![put("a/1", "y")]).await;
    commit(&store, vec![put("b/1", "z")]).await;
    commit(&store, vec![delete("a/1"), put("b/1", "zz")]).await;
    let events = events_through(&mut *live, Revision(5)).await;
    assert_eq!(events_text(&events), "3:a/1=x>y 5:a/1=y>");
    let mut late = watch(&store, "c/", Some(2)).await;
    let batch = late.next().await.expect("the past has nothing, and that is told");
    assert_eq!((batch.events.len(), batch.revision), (0, Revision(5)));
    let mut future = watch(&store, "", Some(6)).await;
    commit(&store, vec![put("a/2", "6")]).await;
    commit(&store, vec![put("a/2", "7")]).await;
    let batch = future.next().await.expect("the revision has come");
    assert_eq!(events_text(&batch.events), "7:a/2=6>7");
}

async fn a_watch_keeps_transactions_whole(store: Shared) {
    let live = watch(&store, "", None).await;
    let width = crate::TXN_OPS_MAX;
    for round in 0..4 {
        let writes = (0..width).map(|n| put(&format!("{n}"), &format!("{round}"))).collect();
        commit(&store, writes).await;
    }
    for mut watch in [live, watch(&store, "", Some(1)).await] {
        let mut seen = 0;
        while watch.progress() < Revision(5) {
            let batch = watch.next().await.expect("history is there");
            assert_eq!(batch.events.len() % width, 0, "a transaction was split");
            assert_eq!(batch.events.last().map(|it| it.revision), Some(batch.revision));
            seen += batch.events.len();
        }
        assert_eq!(seen, 4 * width);
    }
}

async fn a_watch_joins_live_without_gap(store: Shared) {
    for n in 0..10 {
        commit(&store, vec![put("a", &n.to_string())]).await;
    }
    for after in 1..=11 {
        let mut watch = watch(&store, "a", Some(after)).await;
        let mut events = Vec::new();
        if after < store.revision().0 {
            events.extend(watch.next().await.expect("history is there").events);
        }
        let last = commit(&store, vec![put("a", "live")]).await;
        events.extend(events_through(&mut *watch, last).await);
        let revisions: Vec<u64> = events.iter().map(|it| it.revision.0).collect();
        assert_eq!(revisions, (after + 1..=last.0).collect::<Vec<_>>());
    }
}

async fn an_idle_watch_sleeps(store: Shared) {
    let mut idle = watch(&store, "idle/", None).await;
    for n in 0..100 {
        commit(&store, vec![put("busy", &n.to_string())]).await;
        assert_eq!(idle.progress(), store.revision(), "nothing of its range is missing");
    }
    let woken = futures_util::future::poll_immediate(idle.next()).await;
    assert!(woken.is_none(), "an idle watch was woken: {woken:?}");
    store.compact(store.revision()).await.expect("compaction succeeds");
    let last = commit(&store, vec![put("idle/1", "")]).await;
    let batch = idle.next().await.expect("an idle watch never falls behind");
    assert_eq!((batch.events.len(), batch.revision), (1, last));
}

async fn a_slow_watch_misses_nothing(store: Shared) {
    let mut slow = watch(&store, "a", None).await;
    let mut last = store.revision();
    for n in 0..300 {
        last = commit(&store, vec![put(["a", "b"][n % 2], &n.to_string())]).await;
    }
    let events = events_through(&mut *slow, last).await;
    let values: Vec<_> =
        events.iter().filter_map(|it| it.value.as_ref()).map(|it| it.value.clone()).collect();
    let expected: Vec<_> = (0..300).step_by(2).map(|n| bytes(&n.to_string())).collect();
    assert_eq!(values, expected);
}

async fn compaction_forgets_only_the_past(store: Shared) {
    commit(&store, vec![put("a", "1"), put("b", "1")]).await;
    commit(&store, vec![put("a", "2")]).await;
    commit(&store, vec![delete("b")]).await;
    commit(&store, vec![put("a", "3")]).await;
    store.compact(Revision(4)).await.expect("compaction succeeds");
    assert_eq!((store.oldest(), store.revision()), (Revision(4), Revision(5)));
    for (at, expected) in [(4, "a=2@3#2"), (5, "a=3@5#3")] {
        let response = read(&store, "", Some(at)).await.expect("not compacted");
        assert_eq!(text(&response.entries), expected);
    }
    let gone = read(&store, "", Some(3)).await;
    let expected =
        matches!(gone, Err(Error::Compacted { requested: Revision(3), oldest: Revision(4) }));
    assert!(expected, "{gone:?}");
    let events = events_through(&mut *watch(&store, "", Some(4)).await, Revision(5)).await;
    assert_eq!(events_text(&events), "5:a=2>3");
    store.compact(Revision(4)).await.expect("compacting again is nothing");
    let before = store.compact(Revision(2)).await;
    assert!(matches!(before, Err(Error::Compacted { .. })), "{before:?}");
    let beyond = store.compact(Revision(6)).await;
    assert!(matches!(beyond, Err(Error::Future { .. })), "{beyond:?}");
}

async fn compaction_ends_watches_behind_it(store: Shared) {
    let mut behind = watch(&store, "", None).await;
    commit(&store, vec![put("a", "1")]).await;
    commit(&store, vec![put("a", "2")]).await;
    store.compact(Revision(2)).await.expect("compaction succeeds");
    let ended = behind.next().await;
    assert!(matches!(ended, Err(Error::Compacted { .. })), "{ended:?}");
    let refused =
        store.watch(WatchRequest::new(KeyRange::prefix(b""), Some(Revision(1)))).await.err();
    assert!(matches!(refused, Some(Error::Compacted { .. })), "{refused:?}");
    let events = events_through(&mut *watch(&store, "", Some(2)).await, Revision(3)).await;
    assert_eq!(events_text(&events), "3:a=1>2");
}
