//! Snapshots beside writers, restoring them at every revision, and looking at a store that is closed.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use tempfile::TempDir;

use super::{put, put_ok, small, values};
use crate::embedded::{Embedded, Options, check, open, restore, snapshot, status};
use crate::{KeyRange, KeyValue, Op, RangeRequest, Revision, Store as _, Txn};

async fn entries(store: &Embedded, at: Revision) -> Vec<KeyValue> {
    store.range(RangeRequest::latest(KeyRange::prefix(b"")).at(at)).await.unwrap().entries
}

/// Some history with a compaction in it; what it was at each revision that can be read.
async fn fill(store: &Arc<Embedded>) -> BTreeMap<Revision, Vec<KeyValue>> {
    for n in 0..60 {
        put_ok(store, &format!("{}", n % 7), &format!("{n:0>200}")).await;
        if n % 5 == 4 {
            let key = format!("{}", (n + 3) % 7).into_bytes();
            store
                .txn(Txn::of(vec![Op::delete(&key), Op::put("last", n.to_string())]))
                .await
                .unwrap();
        }
        if n == 30 {
            store.compact(Revision(20)).await.unwrap();
        }
    }
    let mut states = BTreeMap::new();
    for at in (store.oldest().0..=store.revision().0).map(Revision) {
        states.insert(at, entries(store, at).await);
    }
    states
}

#[tokio::test]
async fn a_snapshot_taken_beside_writers_restores_to_every_revision() {
    let dir = TempDir::new().unwrap();
    let store = Embedded::open(&dir.path().join("store"), small()).unwrap();
    let mut states = fill(&store).await;
    let file = dir.path().join("snapshot");
    let write = async {
        for n in 0..50 {
            put_ok(&store, "beside", &n.to_string()).await;
        }
    };
    let (taken, ()) = tokio::join!(store.snapshot(&file), write);
    let taken = taken.unwrap();
    for at in (states.keys().next_back().unwrap().0..=taken.0).map(Revision) {
        states.insert(at, entries(&store, at).await);
    }
    let newest = *states.keys().next_back().unwrap();
    assert_eq!(newest, taken);
    for (n, (at, _)) in states.iter().enumerate().step_by(5).chain([(999, (&taken, &vec![]))]) {
        let target = dir.path().join(n.to_string());
        let asked = if *at == taken { None } else { Some(*at) };
        assert_eq!(restore(&file, &target, asked).unwrap(), *at);
        let report = check(&target).unwrap();
        assert_eq!((report.revision, report.was_closed, report.torn), (*at, true, None));
        let restored = Embedded::open(&target, small()).unwrap();
        assert_eq!((restored.revision(), restored.oldest()), (*at, store.oldest()));
        for (at, expected) in states.range(..=at) {
            assert_eq!(entries(&restored, *at).await, *expected, "{at:?}");
        }
        assert_eq!(put_ok(&restored, "new", "1").await, at.next());
    }
}

#[tokio::test]
async fn a_damaged_or_foreign_file_is_refused_before_the_target_is_touched() {
    let dir = TempDir::new().unwrap();
    let store = Embedded::open(&dir.path().join("store"), Options::default()).unwrap();
    put_ok(&store, "a", "1").await;
    put_ok(&store, "a", "2").await;
    let file = dir.path().join("snapshot");
    store.snapshot(&file).await.unwrap();
    let sound = std::fs::read(&file).unwrap();
    let target = dir.path().join("target");
    let refuse = |content: &[u8]| {
        std::fs::write(&file, content).unwrap();
        let error = restore(&file, &target, None).expect_err("must be refused");
        assert!(!target.exists(), "{error}");
        error
    };
    for at in 0..sound.len() {
        let mut content = sound.clone();
        content[at] ^= 1;
        refuse(&content);
        refuse(&sound[..at]);
    }
    refuse(&[sound.as_slice(), b"x"].concat());
    assert!(matches!(refuse(b"no snapshot"), snapshot::Error::Foreign { .. }));
    std::fs::write(&file, &sound).unwrap();
    for at in [0, 4] {
        let error = restore(&file, &target, Some(Revision(at))).expect_err("not in the history");
        assert!(matches!(error, snapshot::Error::OutOfHistory { .. }), "{error}");
    }
    std::fs::create_dir(&target).unwrap();
    restore(&file, &target, None).unwrap();
    let error = restore(&file, &target, None).expect_err("the target is in use");
    assert!(matches!(error, snapshot::Error::NotEmpty { .. }), "{error}");
}

fn segments(dir: &Path) -> Vec<std::path::PathBuf> {
    let mut files: Vec<_> =
        std::fs::read_dir(dir.join("log")).unwrap().map(|it| it.unwrap().path()).collect();
    files.sort();
    files
}

#[tokio::test]
async fn a_check_tells_of_damage_and_changes_nothing() {
    let dir = TempDir::new().unwrap();
    let error = check(dir.path()).expect_err("there is none");
    assert!(matches!(error, open::Error::Missing { .. }), "{error}");
    let store = Embedded::open(dir.path(), small()).unwrap();
    fill(&store).await;
    let error = check(dir.path()).expect_err("it is in use");
    assert!(matches!(error, open::Error::Locked { .. }), "{error}");
    let online = store.status().await.unwrap();
    store.close().await;
    let offline = status(dir.path()).unwrap();
    assert_eq!((offline.revision, offline.n_keys), (online.revision, online.n_keys));
    // What a kill leaves: the last write is torn.
    let last = segments(dir.path()).pop().unwrap();
    let content = std::fs::read(&last).unwrap();
    std::fs::write(&last, [content.as_slice(), b"torn"].concat()).unwrap();
    let report = check(dir.path()).unwrap();
    assert!(report.torn.is_some());
    assert_eq!(std::fs::read(&last).unwrap().len(), content.len() + 4);
    let first = segments(dir.path()).remove(0);
    let mut content = std::fs::read(&first).unwrap();
    let middle = content.len() / 2;
    content[middle] ^= 4;
    std::fs::write(&first, &content).unwrap();
    let error = check(dir.path()).expect_err("a bit is flipped");
    assert!(matches!(error, open::Error::Damaged { .. }), "{error}");
    let error = Embedded::open(dir.path(), small()).err().expect("a bit is flipped");
    assert!(matches!(error, open::Error::Damaged { .. }), "{error}");
    assert_eq!(std::fs::read(&first).unwrap(), content);
}

#[tokio::test]
async fn a_store_is_damaged_nowhere_unseen() {
    let dir = TempDir::new().unwrap();
    let store = Embedded::open(dir.path(), Options::default()).unwrap();
    put_ok(&store, "a", "1").await;
    store.txn(put("b", "2")).await.unwrap();
    store.close().await;
    assert_eq!(values(&store).await.len(), 2);
    let file = segments(dir.path()).remove(0);
    let sound = std::fs::read(&file).unwrap();
    for bit in 0..sound.len() * 8 {
        let mut content = sound.clone();
        content[bit / 8] ^= 1 << (bit % 8);
        std::fs::write(&file, &content).unwrap();
        let found = check(dir.path());
        assert!(found.is_err(), "bit {bit} of {} is flipped, and all is well", sound.len() * 8);
    }
}
