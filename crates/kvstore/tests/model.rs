//! Random histories: the embedded engine, closed and opened in between, always equals the memory engine,
//! and replaying a watch's events over an old state gives the newer states.

#![expect(clippy::unwrap_used, reason = "a panic is a failed test")]

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use kvstore::embedded::{Embedded, Options};
use kvstore::memory::Memory;
use kvstore::{
    Compare, Event, KeyRange, KeyValue, Op, RangeRequest, Revision, Store, Txn, WatchRequest,
    contract,
};
use proptest::prelude::*;
use tempfile::TempDir;

#[derive(Clone, Debug)]
enum Step {
    Txn(Txn),
    /// Several at once, so that they share a commit.
    Burst(Vec<Txn>),
    /// Hundredths of what is retained.
    Compact(u64),
    Reopen,
}

fn key() -> impl Strategy<Value = Bytes> {
    (0u8..6).prop_map(|n| Bytes::from(vec![b'a' + n / 3, b'0' + n % 3]))
}

fn write() -> impl Strategy<Value = Op> {
    prop_oneof![
        3 => (key(), 0u8..100).prop_map(|(key, n)| Op::put(key, n.to_string())),
        1 => (key(), 0usize..3).prop_map(|(key, at)| Op::put_stamped(key, "ab", at)),
        1 => key().prop_map(|it| Op::delete(&it)),
    ]
}

fn compare() -> impl Strategy<Value = Compare> {
    prop_oneof![
        key().prop_map(|it| Compare::absent(&it)),
        (key(), 1u64..20).prop_map(|(key, at)| Compare::mod_revision(&key, Revision(at))),
    ]
}

fn txn() -> impl Strategy<Value = Txn> {
    let compares = prop_oneof![3 => Just(vec![]), 1 => prop::collection::vec(compare(), 1..3)];
    (compares, prop::collection::vec(write(), 0..4))
        .prop_map(|(compares, writes)| Txn::when(compares, writes))
}

fn op() -> impl Strategy<Value = Step> {
    prop_oneof![
        10 => txn().prop_map(Step::Txn),
        3 => prop::collection::vec(txn(), 2..5).prop_map(Step::Burst),
        1 => (0u64..=100).prop_map(Step::Compact),
        1 => Just(Step::Compact(100)),
        2 => Just(Step::Reopen),
    ]
}

fn open(dir: &Path) -> Arc<dyn Store> {
    // A short ring, so that most history is read from disk.
    Embedded::open(dir, Options { ring_commits: 2, ..Options::default() }).unwrap()
}

async fn entries(store: &Arc<dyn Store>, at: Option<Revision>) -> Vec<KeyValue> {
    let request = RangeRequest { at, ..RangeRequest::latest(KeyRange::prefix(b"")) };
    store.range(request).await.unwrap().entries
}

async fn events(store: &Arc<dyn Store>, prefix: &str, after: Revision) -> Vec<Event> {
    let range = KeyRange::prefix(prefix.as_bytes());
    let mut watch = store.watch(WatchRequest::new(range, Some(after))).await.unwrap();
    contract::events_through(&mut *watch, store.revision()).await
}

async fn check_equal(embedded: &Arc<dyn Store>, memory: &Arc<dyn Store>) {
    assert_eq!(embedded.revision(), memory.revision());
    assert_eq!(embedded.oldest(), memory.oldest());
    assert_eq!(entries(embedded, None).await, entries(memory, None).await);
    let (oldest, newest) = (memory.oldest().0, memory.revision().0);
    for at in (oldest..=newest).map(Revision) {
        assert_eq!(entries(embedded, Some(at)).await, entries(memory, Some(at)).await, "{at:?}");
        for prefix in ["", "a", "b1"] {
            let (ours, theirs) =
                (events(embedded, prefix, at).await, events(memory, prefix, at).await);
            assert_eq!(ours, theirs, "watch of {prefix:?} after {at:?}");
        }
    }
}

/// Events over a state give the next states: an oracle that shares no code with the engines.
async fn check_replay(store: &Arc<dyn Store>) {
    let start = store.oldest();
    let mut state: BTreeMap<Bytes, KeyValue> =
        entries(store, Some(start)).await.into_iter().map(|it| (it.key.clone(), it)).collect();
    let mut watch =
        store.watch(WatchRequest::new(KeyRange::prefix(b""), Some(start))).await.unwrap();
    let events = contract::events_through(&mut *watch, store.revision()).await;
    for revision in start.0 + 1..=store.revision().0 {
        for event in events.iter().filter(|it| it.revision == Revision(revision)) {
            let previous = match event.value.clone() {
                Some(entry) => state.insert(event.key.clone(), entry),
                None => state.remove(&event.key),
            };
            assert_eq!(previous, event.previous);
        }
        let expected: Vec<_> = state.values().cloned().collect();
        assert_eq!(entries(store, Some(Revision(revision))).await, expected);
    }
}

async fn check_history(ops: Vec<Step>) {
    let dir = TempDir::new().unwrap();
    let mut embedded = open(dir.path());
    let memory: Arc<dyn Store> = Arc::new(Memory::new());
    for op in ops {
        match op {
            Step::Txn(txn) => {
                let (ours, theirs) = (embedded.txn(txn.clone()).await, memory.txn(txn).await);
                assert_eq!(format!("{ours:?}"), format!("{theirs:?}"));
            }
            Step::Burst(txns) => {
                let ours = txns.iter().map(|it| embedded.txn(it.clone()));
                let theirs = txns.iter().map(|it| memory.txn(it.clone()));
                let (ours, theirs) = (
                    futures_util::future::join_all(ours).await,
                    futures_util::future::join_all(theirs).await,
                );
                assert_eq!(format!("{ours:?}"), format!("{theirs:?}"));
            }
            Step::Compact(hundredths) => {
                let (oldest, newest) = (memory.oldest().0, memory.revision().0);
                let through = Revision(oldest + (newest - oldest) * hundredths / 100);
                embedded.compact(through).await.unwrap();
                memory.compact(through).await.unwrap();
            }
            Step::Reopen => {
                drop(embedded);
                embedded = open(dir.path());
            }
        }
    }
    check_equal(&embedded, &memory).await;
    check_replay(&memory).await;
    drop(embedded);
    check_equal(&open(dir.path()), &memory).await;
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn random_histories_are_the_same_on_disk_and_in_memory(
        ops in prop::collection::vec(op(), 1..30),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(check_history(ops));
    }
}
