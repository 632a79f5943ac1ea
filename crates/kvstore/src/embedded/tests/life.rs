//! Opening, closing, compacting, forgetting.

use std::time::Duration;

use tempfile::TempDir;

use super::{put, put_ok, small, until, values};
use crate::embedded::{Embedded, HistoryBudget, Options, open};
use crate::{
    Error, KeyRange, LeaseId, Op, Put, PutLease, PutValue, RangeRequest, Revision, Store as _, Txn,
    WatchRequest,
};

fn open_error(dir: &TempDir) -> open::Error {
    Embedded::open(dir.path(), Options::default()).err().expect("the store must not open")
}

#[tokio::test]
async fn a_second_opening_is_refused_and_names_the_directory() {
    let dir = TempDir::new().unwrap();
    let store = Embedded::open(dir.path(), Options::default()).unwrap();
    let error = open_error(&dir);
    assert!(matches!(error, open::Error::Locked { .. }), "{error:?}");
    assert!(error.to_string().contains(&dir.path().display().to_string()));
    store.close().await;
    Embedded::open(dir.path(), Options::default()).unwrap();
}

#[test]
fn what_is_no_store_is_foreign_and_a_newer_one_is_refused_by_number() {
    let dir = TempDir::new().unwrap();
    let file = dir.path().join("FORMAT");
    for content in ["", "something else", "xebec-store two\n"] {
        std::fs::write(&file, content).unwrap();
        let error = open_error(&dir);
        assert!(matches!(error, open::Error::Foreign { .. }), "{error:?}");
        assert_eq!(std::fs::read_to_string(&file).unwrap(), content);
    }
    std::fs::write(&file, "xebec-store 7\n").unwrap();
    let error = open_error(&dir);
    assert!(matches!(error, open::Error::NewerFormat { found: 7, known: 2, .. }), "{error:?}");
}

#[tokio::test]
async fn closing_carries_out_what_is_queued_and_ends_watches() {
    let dir = TempDir::new().unwrap();
    let store = Embedded::open(dir.path(), Options::default()).unwrap();
    let all = || WatchRequest::new(KeyRange::prefix(b"other"), None);
    let mut watch = store.watch(all()).await.unwrap();
    let queued = store.txn(put("a", "1"));
    let (outcome, (), ended) = tokio::join!(biased; queued, store.close(), watch.next());
    assert_eq!(outcome.unwrap().revision, Revision(2));
    assert!(matches!(ended, Err(Error::Closed)));
    assert!(matches!(store.txn(put("a", "2")).await, Err(Error::Closed)));
    assert!(matches!(store.watch(all()).await, Err(Error::Closed)));
    let store = Embedded::open(dir.path(), Options::default()).unwrap();
    assert_eq!((values(&store).await, store.revision()), (vec!["1".to_owned()], Revision(2)));
}

#[tokio::test]
async fn a_store_that_is_dropped_releases_its_directory_though_a_watch_is_held() {
    let dir = TempDir::new().unwrap();
    let store = Embedded::open(dir.path(), Options::default()).unwrap();
    let _watch = store.watch(WatchRequest::new(KeyRange::prefix(b""), None)).await.unwrap();
    drop(store);
    Embedded::open(dir.path(), Options::default()).unwrap();
}

fn bytes_below(path: &std::path::Path) -> u64 {
    let meta = std::fs::metadata(path).unwrap();
    if meta.is_file() {
        return meta.len();
    }
    std::fs::read_dir(path).unwrap().map(|it| bytes_below(&it.unwrap().path())).sum()
}

/// Also from the segment that is being written to, which is all there is of most stores.
#[tokio::test]
async fn whoever_asks_gets_the_space_of_what_was_compacted_at_once() {
    let dir = TempDir::new().unwrap();
    let store = Embedded::open(dir.path(), Options::default()).unwrap();
    put_ok(&store, "long-lived", "v").await;
    for n in 0..500 {
        put_ok(&store, &format!("{}", n % 3), &format!("{n:0>2000}")).await;
    }
    let on_disk = || bytes_below(dir.path());
    let (before, before_on_disk) = (store.core.status().bytes, on_disk());
    assert!(before > 1_000_000, "{before}");
    store.reclaim().await.unwrap();
    assert!(store.core.status().bytes > before / 2, "history is kept until it is compacted");
    let through = store.revision();
    store.compact(through).await.unwrap();
    store.reclaim().await.unwrap();
    let (after, after_on_disk) = (store.core.status().bytes, on_disk());
    assert!(after < 20_000, "{after}");
    // The segment under way is filled ahead.
    assert!(after_on_disk + before - 200_000 < before_on_disk, "{before_on_disk} {after_on_disk}");
    let n_segments = store.core.log.segments().len();
    store.reclaim().await.unwrap();
    assert_eq!(store.core.log.segments().len(), n_segments, "nothing more to do");
    let values_before = values(&store).await;
    assert_eq!(values_before.len(), 4);
    store.close().await;
    assert!(matches!(store.reclaim().await, Err(Error::Closed)));
    let store = Embedded::open(dir.path(), Options::default()).unwrap();
    assert_eq!((values(&store).await, store.revision()), (values_before, through));
}

#[tokio::test]
async fn compaction_gives_space_back_and_leaves_what_can_be_read() {
    let dir = TempDir::new().unwrap();
    let store = Embedded::open(dir.path(), small()).unwrap();
    put_ok(&store, "long-lived", "v").await;
    for n in 0..600 {
        put_ok(&store, &format!("{}", n % 3), &format!("{n:0>200}")).await;
    }
    store.txn(Txn::of(vec![Op::delete(b"0")])).await.unwrap();
    let through = store.revision();
    let before = store.core.status().bytes;
    store.compact(through).await.unwrap();
    until(|| store.core.status().bytes < before / 10).await;
    for _ in 0..2 {
        let store = store.range(RangeRequest::latest(KeyRange::prefix(b"")).at(through));
        assert_eq!(store.await.unwrap().entries.len(), 3);
    }
    store.close().await;
    drop(store);
    let store = Embedded::open(dir.path(), small()).unwrap();
    assert_eq!((store.revision(), store.oldest()), (through, through));
    assert_eq!(values(&store).await.len(), 3, "a deleted key stays deleted");
}

#[tokio::test]
async fn a_deleted_key_does_not_come_back_when_its_deletion_is_cleaned_away() {
    let dir = TempDir::new().unwrap();
    let store = Embedded::open(dir.path(), small()).unwrap();
    // The first segment is mostly needed, so it is not rewritten, and has a needless put.
    put_ok(&store, "doomed", "1").await;
    for n in 0..10 {
        put_ok(&store, &format!("long-lived/{n}"), &"x".repeat(350)).await;
    }
    // The deletion is in a segment that is mostly needless.
    for n in 0..100 {
        put_ok(&store, "busy", &format!("{n:0>300}")).await;
        if n == 50 {
            store.txn(Txn::of(vec![Op::delete(b"doomed")])).await.unwrap();
        }
    }
    let before = store.core.status().bytes;
    store.compact(store.revision()).await.unwrap();
    until(|| store.core.status().bytes < before / 3).await;
    store.close().await;
    let store = Embedded::open(dir.path(), small()).unwrap();
    assert_eq!(values(&store).await.len(), 11, "ten that live long, and a busy one");
}

#[tokio::test]
async fn history_beyond_its_budget_is_given_up() {
    let dir = TempDir::new().unwrap();
    let history = HistoryBudget { bytes: 20 << 20, ..HistoryBudget::default() };
    let options = Options { history, segment_bytes: 1 << 20, ..Options::default() };
    let store = Embedded::open(dir.path(), options).unwrap();
    let value = "x".repeat(1 << 20);
    for _ in 0..40 {
        put_ok(&store, "a", &value).await;
    }
    until(|| store.oldest() > Revision(1)).await;
    until(|| store.core.status().bytes < 30 << 20).await;
    let oldest = store.oldest();
    assert!(oldest < Revision(30), "not more than needed: {oldest:?}");
    let request = RangeRequest::latest(KeyRange::prefix(b"")).at(oldest);
    assert_eq!(store.range(request).await.unwrap().entries[0].mod_revision, oldest);
}

#[tokio::test]
async fn leases_survive_a_restart_with_their_whole_time_and_end_with_their_keys() {
    let dir = TempDir::new().unwrap();
    let store = Embedded::open(dir.path(), Options::default()).unwrap();
    let long = store.lease_grant(None, Duration::from_secs(600)).await.unwrap();
    let short = LeaseId::new(7);
    store.lease_grant(short, Duration::from_secs(1)).await.unwrap();
    let bound = |key: &'static str, lease: LeaseId| {
        let (value, lease) = (PutValue::Bytes("1".into()), PutLease::Bound(lease));
        Op::Put(Put { key: key.into(), value, lease })
    };
    let keys = vec![bound("a", long), bound("b", short.unwrap()), bound("c", short.unwrap())];
    store.txn(Txn::of(keys)).await.unwrap();
    store.close().await;
    drop(store);
    let store = Embedded::open(dir.path(), Options::default()).unwrap();
    let status = store.lease(long).await.unwrap();
    assert_eq!((status.granted, status.keys), (Duration::from_secs(600), vec!["a".into()]));
    until(|| store.revision() == Revision(3)).await;
    assert_eq!(values(&store).await.len(), 1);
    assert_eq!(store.leases().await.unwrap(), [long]);
    assert_eq!(store.lease_revoke(long).await.unwrap(), Revision(4));
}

/// `etcdctl check perf --load=xl` deletes what it wrote, 270 MiB of keys, with one request.
#[tokio::test]
async fn a_deletion_of_very_much_is_one_transaction() {
    let dir = TempDir::new().unwrap();
    let store = Embedded::open(dir.path(), Options::default()).unwrap();
    let long = "k".repeat(1 << 20);
    for n in 0..80 {
        put_ok(&store, &format!("{n}{long}"), "value").await;
    }
    put_ok(&store, "other", "kept").await;
    let deletion = Txn::of(vec![Op::Delete(KeyRange { start: "0".into(), end: "9z".into() })]);
    let deleted = store.txn(deletion).await.unwrap().revision;
    assert_eq!(values(&store).await, ["kept"]);
    let before = RangeRequest::latest(KeyRange::prefix(b"")).at(Revision(deleted.0 - 1));
    assert_eq!(store.range(before).await.unwrap().count, 81);
    store.close().await;
    let store = Embedded::open(dir.path(), Options::default()).unwrap();
    assert_eq!((values(&store).await, store.revision()), (vec!["kept".to_owned()], deleted));
}
