//! What only this engine has: errors of opening, a failing disk, closing and opening again.

use std::fs::OpenOptions;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use redb::StorageBackend;
use redb::backends::FileBackend;
use tempfile::TempDir;

use super::tables::{FORMAT, META};
use super::{Embedded, Options, open};
use crate::{Error, KeyRange, RangeRequest, Revision, Store as _, Txn, TxnOutcome, Write};

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

/// A disk that refuses writes and syncs while it is full.
#[derive(Debug)]
struct Faulty {
    file: FileBackend,
    is_full: Arc<AtomicBool>,
}

impl Faulty {
    fn check(&self) -> io::Result<()> {
        if self.is_full.load(Ordering::SeqCst) {
            return Err(io::Error::new(io::ErrorKind::StorageFull, "no space left on device"));
        }
        Ok(())
    }
}

impl StorageBackend for Faulty {
    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }
    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.file.read(offset, out)
    }
    fn set_len(&self, len: u64) -> io::Result<()> {
        self.check()?;
        self.file.set_len(len)
    }
    fn sync_data(&self) -> io::Result<()> {
        self.check()?;
        self.file.sync_data()
    }
    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.check()?;
        self.file.write(offset, data)
    }
    fn close(&self) -> io::Result<()> {
        self.file.close()
    }
}

fn open_faulty(dir: &TempDir, is_full: &Arc<AtomicBool>) -> Arc<Embedded> {
    let is_full = is_full.clone();
    let options = Options { retry_first: Duration::ZERO, ring_commits: 1, ..Options::default() };
    let opener: open::Opener = Box::new(move |builder, path| {
        let file =
            OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path)?;
        let file = FileBackend::new(file)?;
        builder.create_with_backend(Faulty { file, is_full: is_full.clone() })
    });
    Embedded::open_with(dir.path(), &options, opener).unwrap()
}

#[tokio::test]
async fn a_full_disk_makes_the_store_read_only_until_there_is_room_again() {
    let dir = TempDir::new().unwrap();
    let is_full = Arc::new(AtomicBool::new(false));
    let store = open_faulty(&dir, &is_full);
    let mut watch = store.watch(KeyRange::prefix(b""), None).await.unwrap();
    store.txn(put("a", "1")).await.unwrap();
    is_full.store(true, Ordering::SeqCst);
    for _ in 0..3 {
        let Err(Error::ReadOnly { why }) = store.txn(put("b", "2")).await else {
            panic!("a full disk must be told");
        };
        assert!(why.contains("no space left"), "{why}");
        assert_eq!(values(&store).await, ["1"]);
    }
    is_full.store(false, Ordering::SeqCst);
    let TxnOutcome::Committed(revision) = store.txn(put("c", "3")).await.unwrap() else {
        panic!("nothing was compared");
    };
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
