//! A store of format 1 opens as it was, wherever a migration was cut short.

use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use redb::{Database, ReadableTable as _};
use tempfile::TempDir;

use super::record::Record;
use super::tables::{self, COMPACTED, FORMAT, LOG, META};
use crate::embedded::{Embedded, Options, open};
use crate::memory::Memory;
use crate::{Event, KeyRange, KeyValue, Op, RangeRequest, Revision, Store, Txn, WatchRequest};

const N: u64 = 40;

/// The same history as the old program would have stored it, and in memory.
async fn old_store(dir: &Path) -> Arc<Memory> {
    let memory = Arc::new(Memory::new());
    let database = Database::create(dir.join("store.redb")).unwrap();
    let txn = database.begin_write().unwrap();
    {
        let mut meta = txn.open_table(META).unwrap();
        meta.insert(FORMAT, tables::FORMAT_KNOWN).unwrap();
        meta.insert(COMPACTED, 1).unwrap();
        let mut log = txn.open_table(LOG).unwrap();
        for n in 0..N {
            let (one, other) = (format!("{}", n % 3), format!("{}", 3 + n % 5));
            let ops = match n % 4 {
                3 => vec![Op::delete(one.as_bytes()), Op::put(other, n.to_string())],
                _ => vec![Op::put(one, n.to_string()), Op::put(other, "x")],
            };
            memory.txn(Txn::of(ops)).await.unwrap();
        }
        for event in events(&*memory, Revision(1)).await {
            let mut index = 0;
            while log.get((event.revision.0, index)).unwrap().is_some() {
                index += 1;
            }
            let bytes = Record::render(&event);
            log.insert((event.revision.0, index), bytes.as_ref()).unwrap();
        }
    }
    txn.commit().unwrap();
    memory
}

async fn events(store: &dyn Store, after: Revision) -> Vec<Event> {
    let request = WatchRequest::new(KeyRange::prefix(b""), Some(after));
    let mut watch = store.watch(request).await.unwrap();
    let mut events = Vec::new();
    while watch.progress() < store.revision() {
        events.extend(watch.next().await.unwrap().events);
    }
    events
}

async fn entries(store: &dyn Store, at: u64) -> Vec<KeyValue> {
    let request = RangeRequest::latest(KeyRange::prefix(b"")).at(Revision(at));
    store.range(request).await.unwrap().entries
}

async fn check_same(dir: &Path, memory: &Memory) {
    let store = Embedded::open(dir, Options::default()).unwrap();
    assert_eq!((store.revision(), store.oldest()), (memory.revision(), memory.oldest()));
    for at in 1..=memory.revision().0 {
        assert_eq!(entries(&*store, at).await, entries(memory, at).await, "at {at}");
    }
    assert_eq!(events(&*store, Revision(1)).await, events(memory, Revision(1)).await);
    assert!(!dir.join("store.redb").exists(), "the old file is gone");
    assert!(!dir.join("log.new").exists());
}

#[tokio::test]
async fn an_old_store_opens_as_it_was() {
    let dir = TempDir::new().unwrap();
    let memory = old_store(dir.path()).await;
    check_same(dir.path(), &memory).await;
    check_same(dir.path(), &memory).await;
}

#[tokio::test]
async fn a_migration_that_was_cut_short_is_done_again_or_finished() {
    // What a crash leaves after each step: some of the new log, all of it, its name, the format.
    for step in 0..4 {
        let dir = TempDir::new().unwrap();
        let memory = old_store(dir.path()).await;
        let kept = std::fs::read(dir.path().join("store.redb")).unwrap();
        drop(Embedded::open(dir.path(), Options::default()).unwrap());
        std::fs::write(dir.path().join("store.redb"), kept).unwrap();
        let (log, unfinished) = (dir.path().join("log"), dir.path().join("log.new"));
        match step {
            0 => {
                std::fs::remove_dir_all(&log).unwrap();
                std::fs::create_dir(&unfinished).unwrap();
                std::fs::write(unfinished.join("0000000000000001.log"), [0; 77]).unwrap();
            }
            1 => std::fs::rename(&log, &unfinished).unwrap(),
            _ => {}
        }
        if step < 3 {
            std::fs::remove_file(dir.path().join("FORMAT")).unwrap();
        }
        check_same(dir.path(), &memory).await;
    }
}

#[test]
fn a_file_that_is_no_store_is_foreign_and_stays_untouched() {
    let dir = TempDir::new().unwrap();
    let file = dir.path().join("store.redb");
    let open = || Embedded::open(dir.path(), Options::default()).err().expect("no store");
    for contents in [b"these are not the bytes of a database".repeat(400), vec![0; 8192]] {
        std::fs::write(&file, &contents).unwrap();
        let error = open();
        assert!(matches!(error, open::Error::Foreign { .. }), "{error:?}");
        assert_eq!(std::fs::read(&file).unwrap(), contents);
    }
    std::fs::remove_file(&file).unwrap();
    drop(Database::create(&file).unwrap());
    let error = open();
    assert!(matches!(error, open::Error::Foreign { .. }), "{error:?}");
    let database = Database::create(&file).unwrap();
    let txn = database.begin_write().unwrap();
    txn.open_table(META).unwrap().insert(FORMAT, 7).unwrap();
    txn.commit().unwrap();
    drop(database);
    let error = open();
    assert!(matches!(error, open::Error::NewerFormat { found: 7, .. }), "{error:?}");
}

#[test]
fn bytes_of_keys_and_values_survive() {
    let key = Bytes::from_static(b"k\0\xff");
    let entry = KeyValue {
        key: key.clone(),
        value: Bytes::from_static(b"\0v"),
        create_revision: Revision(2),
        mod_revision: Revision(9),
        version: 3,
        lease: None,
    };
    let event = Event { key, value: Some(entry.clone()), previous: None, revision: Revision(9) };
    let record = Record::parse(Revision(9), &Record::render(&event)).unwrap();
    assert_eq!(record.value, Some(entry));
}
