//! Bugs that etcd had.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use futures_util::future::{join_all, poll_immediate};
use kvstore::embedded::{Embedded, Options};
use kvstore::torture::{Bench, Engine};
use kvstore::{
    Compare, Error, KeyRange, Op, RangeRequest, Revision, Store, Txn, WatchRequest, contract,
};
use tempfile::TempDir;

use super::image::{self, Image};
use super::{events, list, list_at, on_every_engine, put, revisions, watch, write};

/// A crash under load left the index of what was applied and the data at different points.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn issue_13766_a_crash_under_load_leaves_one_revision_for_all() {
    let dir = TempDir::new().unwrap();
    let store = Embedded::open(dir.path(), Options::default()).unwrap();
    let acknowledged = Arc::new(AtomicU64::new(1));
    let mut writers = tokio::task::JoinSet::new();
    for writer in 0..8 {
        let (store, acknowledged) = (store.clone(), acknowledged.clone());
        writers.spawn(async move {
            for n in 0..40 {
                let (one, other) = (put(&format!("{writer}/{n}"), "1"), put("sum", &n.to_string()));
                let revision = store.txn(Txn::of(vec![one, other])).await.unwrap().revision;
                acknowledged.fetch_max(revision.0, Ordering::SeqCst);
            }
        });
    }
    for _ in 0..12 {
        let known = acknowledged.load(Ordering::SeqCst);
        let image = Image::of(dir.path());
        let crashed = image.open();
        let present = list(&(crashed.clone() as Arc<dyn Store>)).await;
        assert!(crashed.revision().0 >= known, "an acknowledged revision is gone");
        // Every transaction wrote one key that nobody else writes, and "sum".
        let n_writes = present.revision.0 - 1;
        let expected = if n_writes == 0 { 0 } else { n_writes + 1 };
        assert_eq!(present.count, expected, "the revision and the keys tell different stories");
        let last = present.entries.iter().map(|it| it.mod_revision).max();
        assert_eq!(last.unwrap_or(Revision(1)), present.revision);
        tokio::task::yield_now().await;
    }
    writers.join_all().await;
}

/// A single member answered before its own disk had the write.
#[tokio::test]
async fn issue_14370_what_was_acknowledged_is_in_the_file() {
    let dir = TempDir::new().unwrap();
    let store = Embedded::open(dir.path(), Options::default()).unwrap();
    for n in 0..30 {
        let revision = store.txn(Txn::of(vec![put("a", &n.to_string())])).await.unwrap().revision;
        let image = Image::of(dir.path());
        let crashed = image.open();
        assert_eq!(crashed.revision(), revision);
        let found: Arc<dyn Store> = crashed;
        assert_eq!(list(&found).await.entries[0].value, n.to_string());
    }
}

/// Members that applied the same entries came to different states.
#[tokio::test]
async fn issue_14571_the_same_history_gives_the_same_state() {
    let (one, other) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let mut states = Vec::new();
    for dir in [&one, &other] {
        let store = Embedded::open(dir.path(), Options::default()).unwrap();
        let txn = |n: u64| Txn {
            compares: vec![Compare::absent(format!("{}", n % 3).as_bytes())],
            then: vec![put(&format!("{}", n % 3), &n.to_string()), put("then", &n.to_string())],
            otherwise: vec![Op::delete(format!("{}", n % 3).as_bytes())],
            ..Txn::default()
        };
        // One writes them one by one and ends in between, the other all at once.
        let store = if states.is_empty() {
            for n in 0..10 {
                store.txn(txn(n)).await.unwrap();
            }
            store.close().await;
            drop(store);
            let store = Embedded::open(dir.path(), Options::default()).unwrap();
            for n in 10..20 {
                store.txn(txn(n)).await.unwrap();
            }
            store
        } else {
            let all = join_all((0..20).map(|n| store.txn(txn(n)))).await;
            assert!(all.iter().all(Result::is_ok));
            store
        };
        let embedded = store.clone();
        let store: Arc<dyn Store> = store;
        let status = store.status().await.unwrap();
        assert!(status.hash.is_some(), "the engine keeps a hash");
        states.push((list(&store).await, status.revision, status.hash));
        embedded.close().await;
        drop((embedded, store));
        let closed = kvstore::embedded::status(dir.path()).unwrap();
        assert_eq!(closed.hash, status.hash, "nobody has it open, and it tells the same");
    }
    assert_eq!(states[0], states[1]);
}

/// A crash while the file was rewritten made old entries be applied again.
#[tokio::test]
async fn issue_14685_a_crash_while_history_is_rewritten_replays_nothing() {
    let dir = TempDir::new().unwrap();
    let options = Options { segment_bytes: 4096, ..Options::default() };
    let store = Embedded::open(dir.path(), options).unwrap();
    for n in 0..200u64 {
        let ops = vec![put(&format!("{}", n % 5), &"x".repeat(200)), Op::delete(b"gone")];
        let revision = store.txn(Txn::of(ops)).await.unwrap().revision;
        if n % 10 != 9 {
            continue;
        }
        store.compact(revision).await.unwrap();
        // The segments are rewritten meanwhile, by another thread: the copy is of some moment of
        // that.
        let Ok(image) = std::panic::catch_unwind(|| Image::of(dir.path())) else { continue };
        let crashed = image.open();
        assert_eq!((crashed.revision(), crashed.oldest()), (revision, revision));
        let versions: Vec<u64> = {
            let found: Arc<dyn Store> = crashed;
            list(&found).await.entries.iter().map(|it| it.version).collect()
        };
        assert_eq!(versions, vec![(n + 1) / 5; 5], "a write was applied again, or not at all");
    }
}

/// A progress notification was sent ahead of the events before it.
#[tokio::test]
async fn issue_15220_progress_does_not_overtake_events() {
    on_every_engine(async |bench| {
        let store = bench.store();
        let mut slow = watch(store, 1).await;
        for n in 0..50 {
            write(store, vec![put("a", &n.to_string())]).await;
            slow.request_progress();
            assert!(slow.progress() < store.revision(), "nothing was delivered yet");
        }
        let mut seen = 1;
        while seen < 51 {
            let batch = slow.next().await.unwrap();
            for event in &batch.events {
                assert_eq!(event.revision.0, seen + 1);
                seen += 1;
            }
            assert!(batch.revision.0 <= seen, "progress overtook the events");
        }
    })
    .await;
}

/// After a partition a watch was resumed at a member that lagged, and went back in time.
#[tokio::test]
async fn issue_15271_a_resumed_watch_does_not_go_back() {
    on_every_engine(async |bench| {
        for n in 0..10 {
            write(bench.store(), vec![put("a", &n.to_string())]).await;
        }
        // The reader has seen more than this store has, as if it came from another.
        let mut ahead = watch(bench.store(), 15).await;
        for n in 0..5 {
            assert!(poll_immediate(ahead.next()).await.is_none(), "it was told what it had seen");
            write(bench.store(), vec![put("a", &n.to_string())]).await;
        }
        let last = write(bench.store(), vec![put("a", "new")]).await;
        let events = contract::events_through(&mut *ahead, last).await;
        assert_eq!(revisions(&events), [16, 17]);
        drop(ahead);
        bench.reopen();
        assert_eq!(revisions(&super::events(bench.store(), 16).await), [17]);
    })
    .await;
}

/// Events for a watcher that could not keep up were dropped.
#[tokio::test]
async fn issue_17529_a_starved_watch_loses_nothing() {
    on_every_engine(async |bench| {
        let store = bench.store();
        let mut starved = Vec::new();
        for _ in 0..20 {
            starved.push(watch(store, 1).await);
        }
        for n in 0..60 {
            let ops = (0..40).map(|key| put(&format!("{key}"), &n.to_string())).collect();
            write(store, ops).await;
            if n % 7 == 0 {
                // Some read a little, and fall behind again.
                starved[n % 20].next().await.unwrap();
            }
        }
        for (n, mut watch) in starved.into_iter().enumerate() {
            let from = watch.progress().0;
            let seen = contract::events_through(&mut *watch, Revision(61)).await;
            assert_eq!(seen.len() as u64, (61 - from) * 40, "watch {n} from {from} on");
        }
    })
    .await;
}

/// A crash in a compaction made the revision decrease, since deletes at the end of the history had
/// been removed.
#[tokio::test]
async fn issue_17780_a_crash_in_a_compaction_does_not_decrease_the_revision() {
    let dir = TempDir::new().unwrap();
    let store = Embedded::open(dir.path(), Options::default()).unwrap();
    for key in ["a", "b", "c"] {
        store.txn(Txn::of(vec![put(key, "1")])).await.unwrap();
        store.txn(Txn::of(vec![Op::delete(key.as_bytes())])).await.unwrap();
    }
    let (revision, before) = (store.revision(), image::len(dir.path()));
    store.compact(revision).await.unwrap();
    for len in before..=image::len(dir.path()) {
        let image = Image::cut(dir.path(), len);
        let crashed = image.open();
        assert_eq!(crashed.revision(), revision, "cut at {len}");
        let oldest = crashed.oldest();
        assert!(oldest == Revision(1) || oldest == revision, "half a compaction: {oldest:?}");
        assert_eq!(crashed.txn(Txn::of(vec![put("d", "1")])).await.unwrap().revision.0, 8);
    }
    drop(store);
    let reopened = Embedded::open(dir.path(), Options::default()).unwrap();
    assert_eq!((reopened.revision(), reopened.oldest()), (revision, revision));
}

/// A delete at the compacted revision was lost for watches that began there.
#[tokio::test]
async fn issue_18089_and_19179_deletes_survive_a_compaction_next_to_them() {
    on_every_engine(async |bench| {
        write(bench.store(), vec![put("a", "1"), put("b", "1")]).await;
        write(bench.store(), vec![Op::delete(b"a")]).await;
        write(bench.store(), vec![put("a", "2")]).await;
        write(bench.store(), vec![Op::delete(b"a")]).await;
        write(bench.store(), vec![Op::delete(b"b")]).await;
        let all = events(bench.store(), 1).await;
        for through in 1..=6 {
            bench.store().compact(Revision(through)).await.unwrap();
            for is_reopened in [false, true] {
                if is_reopened {
                    bench.reopen();
                }
                for after in through..=6 {
                    let expected: Vec<_> =
                        all.iter().filter(|it| it.revision.0 > after).cloned().collect();
                    let found = events(bench.store(), after).await;
                    assert_eq!(found, expected, "compacted at {through}, watched after {after}");
                }
                let behind = WatchRequest::new(KeyRange::prefix(b""), Some(Revision(through - 1)));
                let refused = bench.store().watch(behind).await.err();
                assert!(matches!(refused, Some(Error::Compacted { .. })), "{refused:?}");
            }
        }
    })
    .await;
}

/// A transaction that read a compacted revision was applied in part by some members.
#[tokio::test]
async fn issue_18667_a_transaction_that_reads_what_is_compacted_does_nothing() {
    on_every_engine(async |bench| {
        let store = bench.store();
        for n in 0..5 {
            write(store, vec![put("a", &n.to_string())]).await;
        }
        store.compact(Revision(4)).await.unwrap();
        let read = |at| Op::Range(RangeRequest::latest(KeyRange::one(b"a")).at(Revision(at)));
        let nested = |op| Op::Txn(Txn::of(vec![put("c", "1"), op]));
        for ops in [
            vec![put("b", "1"), read(3)],
            vec![read(3), put("b", "1")],
            vec![put("b", "1"), nested(read(2))],
            vec![put("b", "1"), read(7)],
        ] {
            let refused = store.txn(Txn::of(ops)).await;
            let is_refused = matches!(refused, Err(Error::Compacted { .. } | Error::Future { .. }));
            assert!(is_refused, "{refused:?}");
            assert_eq!((list(store).await.count, store.revision()), (1, Revision(6)));
        }
        let both = store.txn(Txn::of(vec![put("b", "1"), read(4)])).await.unwrap();
        assert_eq!(both.revision, Revision(7));
    })
    .await;
}

/// A watch of a future revision was sent old events and old progress.
#[tokio::test]
async fn issue_20221_a_watch_of_the_future_is_told_nothing_old() {
    on_every_engine(async |bench| {
        let store = bench.store();
        write(store, vec![put("a", "1")]).await;
        for start in 3..8 {
            let mut future = watch(store, start).await;
            future.request_progress();
            while store.revision().0 < start {
                let early = poll_immediate(future.next()).await;
                assert!(early.is_none(), "told before {start}: {early:?}");
                write(store, vec![put("a", "2")]).await;
            }
            write(store, vec![put("a", "3")]).await;
            let mut seen = Vec::new();
            while seen.is_empty() {
                let batch = future.next().await.unwrap();
                assert!(batch.revision.0 >= start, "{batch:?}");
                seen = revisions(&batch.events);
            }
            assert_eq!(seen[0], start + 1);
        }
    })
    .await;
}

/// Readers, writers and compaction at once broke the pages of the file, and two snapshots at once
/// the process.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn issue_20271_and_18055_storage_is_used_by_all_at_once() {
    let bench = Bench::new(Engine::ON_DISK);
    let mut users = tokio::task::JoinSet::new();
    for n in 0..3u64 {
        let store = bench.store().clone();
        users.spawn(async move {
            for round in 0..40 {
                write(&store, vec![put(&n.to_string(), &round.to_string())]).await;
            }
        });
        let store = bench.store().clone();
        users.spawn(async move {
            for _ in 0..40 {
                let at = store.oldest().max(Revision(store.revision().0.saturating_sub(5)));
                let request = RangeRequest::latest(KeyRange::prefix(b"")).at(at);
                match store.range(request).await {
                    Ok(response) => assert_eq!(response.revision, at),
                    Err(Error::Compacted { oldest, .. }) => assert!(oldest > at),
                    Err(error) => panic!("{error}"),
                }
                store.status().await.unwrap();
            }
        });
    }
    let store = bench.store().clone();
    users.spawn(async move {
        for _ in 0..20 {
            let through = Revision(store.revision().0.max(2) - 1);
            match store.compact(through).await {
                Ok(()) | Err(Error::Compacted { .. }) => {}
                Err(error) => panic!("{error}"),
            }
        }
    });
    users.join_all().await;
    assert_eq!(bench.store().revision(), Revision(121));
}

/// Two equal transactions shared a cached result, and an event came twice.
#[tokio::test]
async fn issue_17247_equal_transactions_are_two() {
    on_every_engine(async |bench| {
        let store = bench.store();
        let mut live = watch(store, 1).await;
        let txn = Txn::of(vec![put("a", "same"), Op::delete(b"b")]);
        let answers = join_all((0..10).map(|_| store.txn(txn.clone()))).await;
        let mut given: Vec<u64> = answers.into_iter().map(|it| it.unwrap().revision.0).collect();
        given.sort_unstable();
        assert_eq!(given, (2..12).collect::<Vec<_>>());
        let events = contract::events_through(&mut *live, Revision(11)).await;
        assert_eq!(revisions(&events), given, "one event for each");
        assert_eq!(list_at(store, 7).await[0].version, 6);
    })
    .await;
}
