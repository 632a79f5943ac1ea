//! A caller that is alone writes in its own thread: with the same outcome, and without holding up
//! anybody else.

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use super::{put, put_ok, small, until, values};
use crate::embedded::disk::Simulated;
use crate::embedded::{Embedded, Options};
use crate::{Error, KeyRange, Op, RangeRequest, Revision, Store as _, Txn, TxnResponse};

/// How often the disk hangs.
const HANGS: usize = 20;

fn open(disk: &Simulated) -> Arc<Embedded> {
    let (retry_first, retry_max) = (Duration::from_millis(1), Duration::from_millis(10));
    let options = Options { retry_first, retry_max, ..small() };
    Embedded::open_on(Arc::new(disk.clone()), &options).unwrap()
}

/// Asks again and again until the store carries one out here: no other thread had a hand in what is
/// returned.
async fn put_here(store: &Arc<Embedded>, key: &str) -> Result<TxnResponse, Error> {
    for n in 0..10_000 {
        match store.txn_here(put(key, &n.to_string())) {
            Ok(done) => return done,
            Err(txn) => drop(store.txn(txn).await?),
        }
    }
    panic!("ten thousand writes in a row were never found to be alone");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn writes_here_and_there_are_one_history() {
    let disk = Simulated::new(1);
    let store = open(&disk);
    for round in 0..20 {
        put_here(&store, &format!("here {round}")).await.unwrap();
        let before = store.revision();
        let mut others = tokio::task::JoinSet::new();
        for n in 0..4u64 {
            let store = store.clone();
            others.spawn(async move { put_ok(&store, &format!("there {n}"), "x").await });
        }
        let mut revisions = Vec::new();
        for n in 0..4 {
            let txn = put(&format!("mixed {n}"), "x");
            revisions.push(crate::txn_anywhere(&*store, txn).await.unwrap().revision);
        }
        revisions.extend(others.join_all().await);
        revisions.sort_unstable();
        let expected: Vec<_> = (1..=8).map(|n| Revision(before.0 + n)).collect();
        assert_eq!(revisions, expected, "each has its own, and none is left out");
    }
    let (revision, before) = (store.revision(), values(&store).await);
    drop(store);
    let store = open(&disk.crash(2));
    assert_eq!((store.revision(), values(&store).await), (revision, before));
}

/// Timers and connections of a runtime are looked after by one of its workers, and it may be the
/// one that waits.
#[test]
fn a_disk_that_hangs_holds_up_who_writes_and_nobody_else() {
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = runtime.worker_threads(2).enable_all().build().unwrap();
    let disk = Simulated::new(1);
    let store = open(&disk);
    let (n_reads, n_hung) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (reading, counter) = (store.clone(), n_reads.clone());
    runtime.spawn(async move {
        loop {
            tokio::time::sleep(Duration::from_millis(5)).await;
            reading.range(RangeRequest::latest(KeyRange::prefix(b""))).await.unwrap();
            counter.fetch_add(1, SeqCst);
        }
    });
    let _back = Back(disk.clone());
    for round in 0..HANGS {
        let (disk, hanging, counter) = (disk.clone(), store.clone(), n_hung.clone());
        let (disk_there, done) = (disk.clone(), std::sync::mpsc::channel());
        runtime.spawn(async move {
            loop {
                put_here(&hanging, "before").await.unwrap();
                // Wakes the worker that looks after the timers.
                tokio::time::sleep(Duration::from_millis(1)).await;
                disk_there.set_hanging(true);
                counter.fetch_add(1, SeqCst);
                if hanging.txn_here(put("hung", "x")).is_ok() {
                    break done.0.send(()).unwrap();
                }
                // Too much time had passed: it was not found to be alone any more.
                counter.fetch_sub(1, SeqCst);
                disk_there.set_hanging(false);
            }
        });
        wait(|| n_hung.load(SeqCst) > round, "the disk hangs");
        let before = n_reads.load(SeqCst);
        wait(|| n_reads.load(SeqCst) > before + 4, "timers and reads go on meanwhile");
        let is_done = || {
            disk.set_hanging(false);
            done.1.try_recv().is_ok()
        };
        wait(is_done, "the write is carried out when the disk is back");
    }
}

/// The disk is back at the end, however that comes: else nothing that uses it would end.
struct Back(Simulated);

impl Drop for Back {
    fn drop(&mut self) {
        self.0.set_hanging(false);
    }
}

/// From outside of any runtime: nothing that waits here wakes one.
fn wait(holds: impl Fn() -> bool, what: &str) {
    for _ in 0..30_000 {
        if holds() {
            return;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    panic!("{what}: did not come to pass");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_write_here_that_fails_makes_the_store_read_only_until_it_recovers() {
    let disk = Simulated::new(1);
    let store = open(&disk);
    let condition = store.condition();
    let revision = put_here(&store, "a").await.unwrap().revision;
    disk.set_full(true);
    let refused = put_here(&store, "a").await;
    assert!(matches!(refused, Err(Error::ReadOnly { .. })), "{refused:?}");
    assert_eq!(store.revision(), revision);
    assert!(condition.borrow().is_some());
    disk.set_full(false);
    // Nobody writes: the writer's own thread takes it up.
    until(|| condition.borrow().is_none()).await;
    put_here(&store, "a").await.unwrap();
    store.close().await;
    assert!(store.txn_here(put("a", "late")).is_err(), "nothing is written after the end");
    let refused = store.txn(put("a", "late")).await;
    assert!(matches!(refused, Err(Error::Closed)), "{refused:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_may_take_long_is_left_to_the_writer() {
    let store = open(&Simulated::new(1));
    let all = || KeyRange::prefix(b"");
    let long = [
        put("a", "1").relaxed(),
        Txn::of(vec![Op::Delete(all())]),
        Txn::of(vec![Op::Range(RangeRequest::latest(all()))]),
        Txn::of(vec![Op::Txn(put("a", "1"))]),
        Txn::of((0..9).map(|n| Op::put(n.to_string(), "x")).collect()),
    ];
    for txn in long {
        put_here(&store, "a").await.unwrap();
        let given_back = store.txn_here(txn.clone()).expect_err("it is not carried out here");
        assert_eq!(given_back, txn);
    }
}

#[tokio::test]
async fn a_runtime_of_one_thread_does_not_wait_for_the_disk() {
    let store = open(&Simulated::new(1));
    for n in 0..200 {
        let Err(txn) = store.txn_here(put("a", &n.to_string())) else {
            panic!("nobody could go on meanwhile")
        };
        store.txn(txn).await.unwrap();
    }
}
