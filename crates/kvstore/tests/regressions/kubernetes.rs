//! Bugs that Kubernetes' watch cache had, and that a store under it must not bring back.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use kvstore::torture::{Bench, Engine};
use kvstore::{KeyRange, KeyValue, Op, Revision, Store, WatchRequest, contract};

use super::{events, list, on_every_engine, put, revisions, watch, write};

type Copy = BTreeMap<Bytes, KeyValue>;

async fn copy(store: &Arc<dyn Store>) -> (Copy, Revision) {
    let response = list(store).await;
    let entries = response.entries.into_iter().map(|it| (it.key.clone(), it)).collect();
    (entries, response.revision)
}

fn follow(copy: &mut Copy, events: Vec<kvstore::Event>) {
    for event in events {
        match event.value {
            Some(entry) => copy.insert(event.key, entry),
            None => copy.remove(&event.key),
        };
    }
}

/// A list was older than one that the same client had seen before.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn issue_59848_lists_do_not_go_back_in_time() {
    for engine in Engine::ALL {
        let bench = Bench::new(engine);
        let mut users = tokio::task::JoinSet::new();
        for writer in 0..3 {
            let store = bench.store().clone();
            users.spawn(async move {
                for n in 0..60 {
                    write(&store, vec![put(&format!("{writer}"), &n.to_string())]).await;
                }
            });
            let store = bench.store().clone();
            users.spawn(async move {
                let (mut seen, mut last) = (Copy::new(), Revision(0));
                for _ in 0..100 {
                    let (entries, revision) = copy(&store).await;
                    assert!(revision >= last, "{revision:?} came after {last:?}");
                    for (key, entry) in &seen {
                        assert!(entries[key].mod_revision >= entry.mod_revision);
                    }
                    (seen, last) = (entries, revision);
                    tokio::task::yield_now().await;
                }
            });
        }
        users.join_all().await;
    }
}

/// A cache that was kept by a watch had objects that were long deleted.
#[tokio::test]
async fn issue_123072_a_copy_kept_by_a_watch_loses_no_deletes() {
    on_every_engine(async |bench| {
        let store = bench.store();
        for n in 0..10 {
            write(store, vec![put(&format!("{n}"), "1")]).await;
        }
        let (mut kept, revision) = copy(store).await;
        let mut live = watch(store, revision.0).await;
        for n in 0..10 {
            write(store, vec![Op::delete(format!("{n}").as_bytes()), put("new", "1")]).await;
            if n % 3 == 0 {
                follow(&mut kept, live.next().await.unwrap().events);
            }
        }
        write(store, vec![Op::Delete(KeyRange::prefix(b"new"))]).await;
        follow(&mut kept, contract::events_through(&mut *live, store.revision()).await);
        assert_eq!(kept, copy(store).await.0);
        assert!(kept.is_empty());
    })
    .await;
}

/// A watch that began while the cache was made anew missed events.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn issues_116122_and_116172_a_watch_from_a_list_misses_nothing() {
    for engine in Engine::ALL {
        let bench = Bench::new(engine);
        let store = bench.store().clone();
        let mut users = tokio::task::JoinSet::new();
        for writer in 0..2 {
            let store = store.clone();
            users.spawn(async move {
                for n in 0..80 {
                    let key = format!("{writer}/{}", n % 7);
                    let op = if n % 5 == 4 { Op::delete(key.as_bytes()) } else { put(&key, "1") };
                    write(&store, vec![op]).await;
                }
            });
        }
        let mut copies = Vec::new();
        for _ in 0..20 {
            let (entries, revision) = copy(&store).await;
            copies.push((entries, watch(&store, revision.0).await));
            tokio::task::yield_now().await;
        }
        users.join_all().await;
        let (present, revision) = copy(&store).await;
        for (mut entries, mut watch) in copies {
            follow(&mut entries, contract::events_through(&mut *watch, revision).await);
            assert_eq!(entries, present, "{engine:?}");
        }
    }
}

/// With an empty buffer of events the first revision was taken for one too high or too low.
#[tokio::test]
async fn issue_49956_a_store_without_recent_events_knows_where_it_is() {
    on_every_engine(async |bench| {
        for n in 0..4 {
            write(bench.store(), vec![put("a", &n.to_string())]).await;
        }
        // Just opened, or all compacted: nothing is in memory.
        bench.reopen();
        for after in 1..=5 {
            let found = revisions(&events(bench.store(), after).await);
            assert_eq!(found, (after + 1..=5).collect::<Vec<_>>());
        }
        bench.store().compact(Revision(5)).await.unwrap();
        let mut live = watch(bench.store(), 5).await;
        let before = WatchRequest::new(KeyRange::prefix(b""), Some(Revision(4)));
        assert!(bench.store().watch(before).await.is_err());
        let last = write(bench.store(), vec![put("a", "5")]).await;
        assert_eq!(revisions(&live.next().await.unwrap().events), [last.0]);
    })
    .await;
}

/// After a restart events were sent a second time, in an order that went back.
#[tokio::test]
async fn issue_73845_events_do_not_come_again_after_a_restart() {
    on_every_engine(async |bench| {
        let (mut seen, mut last) = (Vec::new(), 1);
        for round in 0..5 {
            for n in 0..4 {
                write(bench.store(), vec![put(&n.to_string(), &round.to_string())]).await;
            }
            let mut live = watch(bench.store(), last).await;
            let batch = live.next().await.unwrap();
            seen.extend(revisions(&batch.events));
            last = batch.revision.0;
            drop(live);
            bench.reopen();
        }
        seen.extend(revisions(&events(bench.store(), last).await));
        assert_eq!(seen, (2..=21).collect::<Vec<_>>());
    })
    .await;
}

/// What a watch was told of an object depended on whether the cache or the disk answered.
#[tokio::test]
async fn issue_24004_the_past_is_told_as_it_was_live() {
    on_every_engine(async |bench| {
        let mut live = watch(bench.store(), 1).await;
        for n in 0..30 {
            let key = format!("{}", n % 4);
            let ops = match n % 5 {
                3 => vec![Op::delete(key.as_bytes())],
                4 => vec![Op::Delete(KeyRange::prefix(b"")), put("x/5", "1")],
                _ => vec![put(&key, &n.to_string()), put("other", &n.to_string())],
            };
            let _ = bench.store().txn(kvstore::Txn::of(ops)).await;
        }
        let told = contract::events_through(&mut *live, bench.store().revision()).await;
        drop(live);
        assert_eq!(events(bench.store(), 1).await, told);
        bench.reopen();
        assert_eq!(events(bench.store(), 1).await, told);
    })
    .await;
}
