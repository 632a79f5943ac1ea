//! A disk that is full, that fails, or that lies.

use std::sync::Arc;
use std::time::Duration;

use super::{put, put_ok, small, until, values};
use crate::embedded::disk::Simulated;
use crate::embedded::disk::simulated::{EIO, Fault};
use crate::embedded::{Embedded, Options};
use crate::{Error, KeyRange, RangeRequest, Revision, Store as _, Txn, Want, WatchRequest};

fn open(disk: &Simulated) -> Arc<Embedded> {
    let (retry_first, retry_max) = (Duration::from_millis(1), Duration::from_millis(10));
    let options = Options { retry_first, retry_max, ..small() };
    Embedded::open_on(Arc::new(disk.clone()), &options).unwrap()
}

#[tokio::test]
async fn a_full_disk_makes_the_store_read_only_until_there_is_room_again() {
    let disk = Simulated::new(1);
    let store = open(&disk);
    let mut watch = store.watch(WatchRequest::new(KeyRange::prefix(b""), None)).await.unwrap();
    let condition = store.condition();
    put_ok(&store, "a", "1").await;
    store.txn(put("r", "relaxed").relaxed()).await.unwrap();
    disk.set_full(true);
    for _ in 0..3 {
        let refused = store.txn(put("b", "2")).await;
        assert!(matches!(refused, Err(Error::ReadOnly { .. })), "{refused:?}");
        assert_eq!(values(&store).await, ["1", "relaxed"]);
    }
    let read = store.txn(Txn::of(vec![])).await.unwrap();
    assert_eq!(read.revision, Revision(3), "what writes nothing is still answered");
    let why = condition.borrow().clone().expect("the condition is told");
    assert_eq!(store.status().await.unwrap().read_only, Some(why));
    disk.set_full(false);
    // Nobody writes: the store finds out by itself.
    until(|| condition.borrow().is_none()).await;
    assert_eq!(put_ok(&store, "c", "3").await, Revision(4));
    let mut next = Revision(2);
    while next <= Revision(4) {
        for event in watch.next().await.unwrap().events {
            assert_eq!(event.revision, next, "watches see each revision once");
            next = next.next();
        }
    }
    drop((watch, store));
    let store = open(&disk.crash(3));
    assert_eq!(values(&store).await, ["1", "3", "relaxed"]);
}

/// Twice in the log, a write would be known at one place only, and the other would outlive its
/// deletion.
#[tokio::test]
async fn what_a_failed_rotation_had_synced_is_not_written_again() {
    let disk = Simulated::new(1);
    let options = Options { relaxed_delay: Duration::from_secs(3600), ..small() };
    let options = Options { retry_first: Duration::from_millis(1), ..options };
    let store = Embedded::open_on(Arc::new(disk.clone()), &options).unwrap();
    let condition = store.condition();
    // The first one needs a ceiling, and is synced with it.
    store.txn(put("a", "first").relaxed()).await.unwrap();
    store.txn(put("b", "only-once").relaxed()).await.unwrap();
    // The next one needs a new segment: a sync, and then the beginning of the segment, which fails.
    disk.fault_at(disk.n_operations() + 1, Fault::Refuse(EIO));
    let refused = store.txn(put("c", &"x".repeat(4000))).await;
    assert!(matches!(refused, Err(Error::ReadOnly { .. })), "{refused:?}");
    until(|| condition.borrow().is_none()).await;
    put_ok(&store, "d", "last").await;
    let files = disk.files();
    let is_it = |it: &&[u8]| *it == b"only-once";
    let n_copies: usize =
        files.values().map(|content| content.windows(9).filter(is_it).count()).sum();
    assert_eq!(n_copies, 1);
    drop(store);
    let store = open(&disk.crash(3));
    assert_eq!(values(&store).await, ["first", "only-once", "last"]);
}

#[tokio::test]
async fn an_idle_store_writes_nothing() {
    let disk = Simulated::new(1);
    let store = open(&disk);
    put_ok(&store, "a", "1").await;
    let before = disk.n_operations();
    store.txn(Txn::default()).await.unwrap();
    store.compact(Revision(1)).await.unwrap();
    values(&store).await;
    assert_eq!(disk.n_operations(), before);
}

#[tokio::test]
async fn relaxed_writes_are_synced_by_themselves() {
    let disk = Simulated::new(1);
    let options = Options { relaxed_delay: Duration::from_millis(20), ..small() };
    let store = Embedded::open_on(Arc::new(disk.clone()), &options).unwrap();
    store.txn(put("a", "1").relaxed()).await.unwrap();
    let before = disk.n_operations();
    store.txn(put("b", "2").relaxed()).await.unwrap();
    assert_eq!(disk.n_operations(), before + 1, "a write without a sync");
    until(|| disk.n_operations() == before + 2).await;
    let crashed = disk.crash(1);
    let store = Embedded::open_on(Arc::new(crashed), &small()).unwrap();
    assert_eq!(values(&store).await, ["1", "2"]);
    assert!(store.revision() > Revision(3), "revisions that may have been given stay unused");
}

#[tokio::test]
async fn damage_of_history_is_never_served_and_told_by_the_scrub() {
    let disk = Simulated::new(1);
    let options =
        Options { scrub_every: Duration::ZERO, scrub_bytes_per_second: 1 << 30, ..small() };
    let store = Embedded::open_on(Arc::new(disk.clone()), &options).unwrap();
    let condition = store.condition();
    for n in 0..40 {
        put_ok(&store, "a", &format!("{n:0>300}")).await;
    }
    let name = disk.files().keys().next().unwrap().clone();
    let value = format!("{:0>300}", 3);
    let content = disk.files()[&name].clone();
    let at = content.windows(300).position(|it| it == value.as_bytes()).unwrap();
    disk.flip(&name, (at + 150) * 8);
    let read = |at| store.range(RangeRequest::latest(KeyRange::prefix(b"")).at(Revision(at)));
    let damaged = read(5).await;
    assert!(matches!(damaged, Err(Error::Io { .. })), "{damaged:?}");
    assert_eq!(read(4).await.unwrap().entries[0].value, format!("{:0>300}", 2));
    assert_eq!(values(&store).await, [format!("{:0>300}", 39)]);
    until(|| condition.borrow().as_ref().is_some_and(|it| it.contains(&name))).await;
    put_ok(&store, "a", "still writable").await;
    drop(store);
    let error = Embedded::open_on(Arc::new(disk), &options).err().expect("damage is told");
    assert!(error.to_string().contains("and before revision 6"), "{error}");
}

#[tokio::test]
async fn a_damaged_value_is_never_served_and_fails_alone() {
    let disk = Simulated::new(1);
    let store = open(&disk);
    let condition = store.condition();
    let value = "v".repeat(300);
    put_ok(&store, "a", &value).await;
    put_ok(&store, "b", "1").await;
    let name = disk.files().keys().next().unwrap().clone();
    let content = disk.files()[&name].clone();
    let at = content.windows(300).position(|it| it == value.as_bytes()).unwrap();
    disk.flip(&name, (at + 150) * 8);

    let get = |key: &str| store.range(RangeRequest::latest(KeyRange::one(key.as_bytes())));
    for damaged in [get("a").await, store.range(RangeRequest::latest(KeyRange::prefix(b""))).await]
    {
        let error = damaged.expect_err("the value is damaged");
        assert!(
            stdx::error_chain(&error).contains(&format!("{name} is damaged at byte")),
            "{error}"
        );
    }
    assert!(condition.borrow().as_ref().is_some_and(|it| it.contains(&name)));
    assert_eq!(get("b").await.unwrap().entries[0].value, "1");
    let keys = RangeRequest { want: Want::Keys, ..RangeRequest::latest(KeyRange::prefix(b"")) };
    assert_eq!(store.range(keys).await.unwrap().entries.len(), 2);

    // In one batch with others, who do not mind.
    let wanting = store.txn(put("a", "2"));
    let (wanting, other) = tokio::join!(wanting, store.txn(put("b", "2")));
    assert!(matches!(wanting, Err(Error::Io { .. })), "{wanting:?}");
    assert!(other.is_ok(), "{other:?}");
    let revision = store.txn(put("a", "2").without_previous_values()).await.unwrap().revision;
    let entry = get("a").await.unwrap().entries.remove(0);
    assert_eq!((entry.value.as_ref(), entry.mod_revision), (b"2".as_slice(), revision));
}
