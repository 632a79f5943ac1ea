//! Snapshots beside writers, restoring them at every revision, and looking at a store that is
//! closed.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use tempfile::TempDir;

use super::{put, put_ok, small, values};
use crate::embedded::{
    Embedded, Options, Restore, check, check_snapshot, open, restore, snapshot, status,
};
use crate::{
    Compare, Error, KeyRange, KeyValue, Op, RangeRequest, Revision, Store as _, Txn, WatchRequest,
};

async fn entries(store: &Embedded, at: Revision) -> Vec<KeyValue> {
    store.range(RangeRequest::latest(KeyRange::prefix(b"")).at(at)).await.unwrap().entries
}

/// With the revisions that the old store had.
fn exactly(at: Option<Revision>) -> Restore {
    Restore { at, bump: 0 }
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
        assert_eq!(restore(&file, &target, exactly(asked)).unwrap().revision, *at);
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
        let error = restore(&file, &target, exactly(None)).expect_err("must be refused");
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
    // As etcdctl saves it: whole blocks, and a sum.
    let mut saved = sound.clone();
    saved.resize(sound.len().next_multiple_of(512), 0);
    refuse(&saved);
    saved.extend([7; 32]);
    refuse(&[saved.as_slice(), b"x"].concat());
    let mut stained = saved.clone();
    stained[sound.len()] = 1;
    refuse(&stained);
    std::fs::write(&file, &saved).unwrap();
    check_snapshot(&file).unwrap();
    assert!(matches!(refuse(b"no snapshot"), snapshot::Error::Foreign { .. }));
    std::fs::write(&file, &sound).unwrap();
    for at in [0, 4] {
        let wish = exactly(Some(Revision(at)));
        let error = restore(&file, &target, wish).expect_err("not in the history");
        assert!(matches!(error, snapshot::Error::OutOfHistory { .. }), "{error}");
    }
    std::fs::create_dir(&target).unwrap();
    restore(&file, &target, exactly(None)).unwrap();
    let error = restore(&file, &target, exactly(None)).expect_err("the target is in use");
    assert!(matches!(error, snapshot::Error::NotEmpty { .. }), "{error}");
}

/// Whoever remembers a revision of before is told that it is gone, and waits for nothing.
async fn check_refused(store: &Embedded, remembered: Revision) {
    let request = WatchRequest::new(KeyRange::prefix(b""), Some(remembered));
    let watched = store.watch(request).await.err();
    assert!(matches!(watched, Some(Error::Compacted { .. })), "{remembered:?}: {watched:?}");
    let read = store.range(RangeRequest::latest(KeyRange::prefix(b"")).at(remembered)).await;
    assert!(matches!(read, Err(Error::Compacted { .. })), "{remembered:?}: {read:?}");
}

#[tokio::test]
async fn a_restored_store_gives_no_revision_that_the_old_one_gave() {
    let dir = TempDir::new().unwrap();
    let store = Embedded::open(&dir.path().join("store"), small()).unwrap();
    let states = fill(&store).await;
    let file = dir.path().join("snapshot");
    let newest = store.snapshot(&file).await.unwrap();
    for n in 0..20 {
        put_ok(&store, "lost", &n.to_string()).await;
    }
    let lost = store.revision();
    let middle = Revision(newest.0 - 17);
    for (n, at) in [None, Some(middle)].into_iter().enumerate() {
        let target = dir.path().join(n.to_string());
        let restored = restore(&file, &target, Restore { at, ..Restore::default() }).unwrap();
        let first = Revision(newest.0 + Restore::BUMP_DEFAULT);
        assert_eq!((restored.at, restored.revision), (at.unwrap_or(newest), first));
        let state = &states[&restored.at];
        // What the first start does (it forgets, and rewrites) changes nothing of it.
        for start in 0..2 {
            let store = Embedded::open(&target, small()).unwrap();
            assert_eq!((store.oldest(), store.revision()), (first, Revision(first.0 + start)));
            let last = Revision(first.0 - 1);
            for remembered in [Revision(1), middle, newest, newest.next(), lost, last] {
                check_refused(&store, remembered).await;
            }
            assert_eq!(entries(&store, first).await, *state);
            let request = WatchRequest::new(KeyRange::prefix(b""), Some(store.revision()));
            let mut watch = store.watch(request).await.unwrap();
            let next = store.revision().next();
            assert_eq!(put_ok(&store, "new", &start.to_string()).await, next);
            let batch = watch.next().await.unwrap();
            assert_eq!((batch.revision, batch.events.len()), (next, 1));
            let known = state[0].clone();
            let found = store.range(RangeRequest::latest(KeyRange::one(&known.key))).await;
            assert_eq!(found.unwrap().entries, [known]);
            store.close().await;
        }
        assert_eq!(check(&target).unwrap().revision, Revision(first.0 + 2));
    }
}

#[tokio::test]
async fn what_was_restored_changes_with_its_past() {
    let dir = TempDir::new().unwrap();
    let store = Embedded::open(&dir.path().join("store"), Options::default()).unwrap();
    put_ok(&store, "a", "1").await;
    put_ok(&store, "a", "2").await;
    let file = dir.path().join("snapshot");
    store.snapshot(&file).await.unwrap();
    let target = dir.path().join("target");
    restore(&file, &target, Restore { at: None, bump: 10 }).unwrap();
    let store = Embedded::open(&target, Options::default()).unwrap();
    let request = WatchRequest::new(KeyRange::prefix(b""), Some(store.revision()));
    let mut watch = store.watch(request).await.unwrap();
    // An update that was prepared on the old store: its precondition is the entry's revision, which
    // stays.
    let unchanged = Compare::mod_revision(b"a", Revision(3));
    let updated = store.txn(Txn::when(vec![unchanged], vec![Op::put("a", "3")])).await.unwrap();
    assert!(updated.succeeded);
    let event = watch.next().await.unwrap().events.remove(0);
    let (now, before) = (event.value.unwrap(), event.previous.unwrap());
    assert_eq!(
        (now.create_revision, now.mod_revision, now.version),
        (Revision(2), Revision(14), 3)
    );
    assert_eq!((before.mod_revision, before.value.as_ref()), (Revision(3), b"2".as_slice()));
    let wish = Restore { at: None, bump: u64::MAX };
    let error = restore(&file, &dir.path().join("far"), wish).expect_err("none would be left");
    assert!(matches!(error, snapshot::Error::BumpTooFar { .. }), "{error}");
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
