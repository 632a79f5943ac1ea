//! What only this engine has: errors of opening, a failing disk, closing and opening again.

use std::fs::OpenOptions;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use redb::backends::FileBackend;
use redb::{ReadableDatabase as _, ReadableTableMetadata as _, StorageBackend};
use tempfile::TempDir;

use super::tables::{FORMAT, LOG, META};
use super::{Embedded, Options, open};
use crate::{Compare, Error, KeyRange, RangeRequest, Revision, Store as _, Txn, TxnOutcome, Write};

fn put(key: &str, value: &str) -> Txn {
    let write = Write::Put(Bytes::from(key.to_owned()), Bytes::from(value.to_owned()));
    Txn { compares: vec![], writes: vec![write] }
}

async fn values(store: &Embedded) -> Vec<String> {
    let request = RangeRequest { range: KeyRange::prefix(b""), at: None, limit: 0 };
    let response = store.range(request).await.unwrap();
    response.entries.iter().map(|it| String::from_utf8_lossy(&it.value).into_owned()).collect()
}

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
fn a_file_that_is_no_store_is_foreign_and_stays_untouched() {
    let dir = TempDir::new().unwrap();
    let file = dir.path().join("store.redb");
    for contents in [b"these are not the bytes of a database".repeat(400), vec![0; 8192]] {
        std::fs::write(&file, &contents).unwrap();
        let error = open_error(&dir);
        assert!(matches!(error, open::Error::Foreign { .. }), "{error:?}");
        assert_eq!(std::fs::read(&file).unwrap(), contents);
    }
    std::fs::remove_file(&file).unwrap();
    drop(redb::Database::create(&file).unwrap());
    let error = open_error(&dir);
    assert!(matches!(error, open::Error::Foreign { .. }), "{error:?}");
}

#[test]
fn a_creation_cut_short_is_begun_again() {
    let dir = TempDir::new().unwrap();
    std::fs::write(dir.path().join("store.redb.new"), [0; 4096]).unwrap();
    let store = Embedded::open(dir.path(), Options::default()).unwrap();
    assert_eq!(store.revision(), Revision(1));
}

#[test]
fn a_newer_format_is_refused_by_number() {
    let dir = TempDir::new().unwrap();
    drop(Embedded::open(dir.path(), Options::default()).unwrap());
    let database = redb::Database::create(dir.path().join("store.redb")).unwrap();
    let txn = database.begin_write().unwrap();
    txn.open_table(META).unwrap().insert(FORMAT, 7).unwrap();
    txn.commit().unwrap();
    drop(database);
    let error = open_error(&dir);
    assert!(matches!(error, open::Error::NewerFormat { found: 7, known: 1, .. }), "{error:?}");
}

#[tokio::test]
async fn closing_carries_out_what_is_queued_and_ends_watches() {
    let dir = TempDir::new().unwrap();
    let store = Embedded::open(dir.path(), Options::default()).unwrap();
    let mut watch = store.watch(KeyRange::prefix(b"other"), None).await.unwrap();
    let queued = store.txn(put("a", "1"));
    let (outcome, (), ended) = tokio::join!(biased; queued, store.close(), watch.next());
    assert!(matches!(outcome, Ok(TxnOutcome::Committed(Revision(2)))), "{outcome:?}");
    assert!(matches!(ended, Err(Error::Closed)));
    assert!(matches!(store.txn(put("a", "2")).await, Err(Error::Closed)));
    assert!(matches!(store.watch(KeyRange::prefix(b""), None).await, Err(Error::Closed)));
    drop(store);
    let store = Embedded::open(dir.path(), Options::default()).unwrap();
    assert_eq!((values(&store).await, store.revision()), (vec!["1".to_owned()], Revision(2)));
}

#[tokio::test]
async fn a_closed_store_releases_its_file_though_a_watch_is_still_held() {
    let dir = TempDir::new().unwrap();
    let store = Embedded::open(dir.path(), Options::default()).unwrap();
    let _watch = store.watch(KeyRange::prefix(b""), None).await.unwrap();
    drop(store);
    Embedded::open(dir.path(), Options::default()).unwrap();
}

#[tokio::test]
async fn compaction_leaves_only_what_can_still_be_read() {
    let dir = TempDir::new().unwrap();
    let store = Embedded::open(dir.path(), Options::default()).unwrap();
    // More than one step of sweeping.
    for n in 0..1500 {
        store.txn(put(&format!("{}", n % 3), "v")).await.unwrap();
    }
    let delete = Write::Delete(Bytes::from_static(b"0"));
    store.txn(Txn { compares: vec![], writes: vec![delete] }).await.unwrap();
    let through = store.revision();
    store.compact(through).await.unwrap();
    // Closed in the middle of sweeping, it goes on after opening.
    store.close().await;
    drop(store);
    let store = Embedded::open(dir.path(), Options::default()).unwrap();
    assert_eq!((store.revision(), store.oldest()), (through, through));
    assert_eq!(values(&store).await, ["v", "v"]);
    while log_len(&store) > 2 {
        tokio::task::yield_now().await;
    }
    assert_eq!(values(&store).await, ["v", "v"]);
    drop(store);
    let store = Embedded::open(dir.path(), Options::default()).unwrap();
    assert_eq!((store.revision(), values(&store).await.len()), (through, 2));
}

fn log_len(store: &Embedded) -> u64 {
    let database = store.core.disk.database().unwrap();
    database.begin_read().unwrap().open_table(LOG).unwrap().len().unwrap()
}

#[tokio::test]
async fn an_idle_store_writes_nothing() {
    let dir = TempDir::new().unwrap();
    let disk = Arc::new(Mood::default());
    let store = open_faulty(&dir, &disk);
    store.txn(put("a", "1")).await.unwrap();
    let before = disk.n_writes.load(Ordering::SeqCst);
    store.txn(Txn::default()).await.unwrap();
    store
        .txn(Txn { compares: vec![Compare::Absent(Bytes::from_static(b"a"))], writes: vec![] })
        .await
        .unwrap();
    store.compact(Revision(1)).await.unwrap();
    values(&store).await;
    assert_eq!(disk.n_writes.load(Ordering::SeqCst), before);
}

/// What a disk refuses to do now, and how often it was written.
#[derive(Debug, Default)]
struct Mood {
    is_full: AtomicBool,
    /// Writes go through, but nothing can be said about their durability.
    loses_syncs: AtomicBool,
    n_writes: AtomicU64,
}

#[derive(Debug)]
struct Faulty {
    file: FileBackend,
    mood: Arc<Mood>,
}

fn refuse_if(flag: &AtomicBool) -> io::Result<()> {
    if flag.load(Ordering::SeqCst) {
        return Err(io::Error::new(io::ErrorKind::StorageFull, "no space left on device"));
    }
    Ok(())
}

impl StorageBackend for Faulty {
    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }
    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.file.read(offset, out)
    }
    fn set_len(&self, len: u64) -> io::Result<()> {
        refuse_if(&self.mood.is_full)?;
        self.file.set_len(len)
    }
    fn sync_data(&self) -> io::Result<()> {
        refuse_if(&self.mood.is_full)?;
        refuse_if(&self.mood.loses_syncs)?;
        self.file.sync_data()
    }
    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        refuse_if(&self.mood.is_full)?;
        self.mood.n_writes.fetch_add(1, Ordering::SeqCst);
        self.file.write(offset, data)
    }
    fn close(&self) -> io::Result<()> {
        self.file.close()
    }
}

fn open_faulty(dir: &TempDir, mood: &Arc<Mood>) -> Arc<Embedded> {
    let mood = mood.clone();
    let options = Options { retry_first: Duration::ZERO, ring_commits: 1, ..Options::default() };
    let opener: open::Opener = Box::new(move |builder, path| {
        let file =
            OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path)?;
        let file = FileBackend::new(file)?;
        builder.create_with_backend(Faulty { file, mood: mood.clone() })
    });
    Embedded::open_with(dir.path(), &options, opener).unwrap()
}

#[tokio::test]
async fn a_full_disk_makes_the_store_read_only_until_there_is_room_again() {
    check_recovery(|it| &it.is_full, Revision(3)).await;
}

#[tokio::test]
async fn a_write_that_reached_the_disk_after_all_keeps_its_revision() {
    check_recovery(|it| &it.loses_syncs, Revision(4)).await;
}

async fn check_recovery(fault: fn(&Mood) -> &AtomicBool, expected: Revision) {
    let dir = TempDir::new().unwrap();
    let mood = Arc::new(Mood::default());
    let store = open_faulty(&dir, &mood);
    let mut watch = store.watch(KeyRange::prefix(b""), None).await.unwrap();
    store.txn(put("a", "1")).await.unwrap();
    fault(&mood).store(true, Ordering::SeqCst);
    for _ in 0..3 {
        let Err(Error::ReadOnly { why }) = store.txn(put("b", "2")).await else {
            panic!("a failing disk must be told");
        };
        assert!(why.contains("no space left"), "{why}");
        assert_eq!(values(&store).await[0], "1");
    }
    fault(&mood).store(false, Ordering::SeqCst);
    let TxnOutcome::Committed(revision) = store.txn(put("c", "3")).await.unwrap() else {
        panic!("nothing was compared");
    };
    assert_eq!(revision, expected);
    assert!(values(&store).await.contains(&"3".to_owned()));
    let mut next = Revision(2);
    while next <= revision {
        for event in watch.next().await.unwrap().events {
            assert_eq!(event.revision, next, "watches see each revision once");
            next = next.next();
        }
    }
    let before = values(&store).await;
    drop((watch, store));
    let store = Embedded::open(dir.path(), Options::default()).unwrap();
    assert_eq!((values(&store).await, store.revision()), (before, revision));
}
