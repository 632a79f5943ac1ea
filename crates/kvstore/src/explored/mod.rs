//! The hub among the locks of a scheduler that tries one interleaving after another: a watch that
//! is never woken shows as a deadlock, a lost or doubled event as a failed assertion.

#[expect(clippy::duplicate_mod, reason = "the same source, with other locks")]
#[expect(dead_code, reason = "engines use more of it than these tests")]
#[path = "../hub/mod.rs"]
mod hub;

mod groups;

/// What the hub takes its locks from.
mod sync {
    pub(super) use std::sync::PoisonError;

    pub(super) use shuttle::sync::{Mutex, MutexGuard};
}

use std::sync::Arc;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use shuttle::future::block_on;
use shuttle::thread;

use self::hub::{History, Hub, Past, Retention, Wanted};
use crate::state::Commit;
use crate::{Error, Event, EventFilter, KeyRange, KeyValue, Revision, Watch, WatchRequest};

const ITERATIONS: usize = 2_000;
const COMMITS: u64 = 4;

fn explore(scenario: impl Fn() + Send + Sync + Copy + 'static) {
    shuttle::check_random(scenario, ITERATIONS);
    shuttle::check_pct(scenario, ITERATIONS, 3);
}

/// Commits of one key each, that of `b` every third.
fn commit(revision: u64) -> Arc<Commit> {
    let key = Bytes::from_static(if revision.is_multiple_of(3) { b"b" } else { b"a" });
    let revision = Revision(revision);
    let value = KeyValue {
        key: key.clone(),
        value: Bytes::from(revision.0.to_string()),
        create_revision: revision,
        mod_revision: revision,
        version: 1,
        lease: None,
    };
    let event = Event { key, value: Some(value), previous: None, revision };
    Arc::new(Commit { revision, events: vec![event], leases: vec![], lacks_previous: false })
}

fn hub(ring: usize) -> Arc<Hub> {
    let retention = Retention { commits: ring, bytes: usize::MAX };
    Arc::new(Hub::new(Revision(1), Revision(1), retention))
}

fn watch(hub: &Arc<Hub>, prefix: &str, after: u64) -> Result<Box<dyn Watch>, Error> {
    let range = KeyRange::prefix(prefix.as_bytes());
    hub.watch(WatchRequest::new(range, Some(Revision(after))), Some(Arc::new(Everything)))
}

/// The history as it would be on disk, where it is before it is published.
struct Everything;

impl History for Everything {
    fn commits(self: Arc<Self>, wanted: Wanted) -> BoxFuture<'static, Result<Past, Error>> {
        let commits = (wanted.from.0..=wanted.through.0).map(commit).collect();
        Box::pin(async move {
            shuttle::future::yield_now().await;
            Ok(Past { commits, through: wanted.through })
        })
    }
}

fn publish(hub: &Arc<Hub>) -> thread::JoinHandle<()> {
    let hub = hub.clone();
    thread::spawn(move || (2..2 + COMMITS).for_each(|it| hub.publish(&[commit(it)])))
}

/// The revisions that a watch delivers up to the last one, or the revision after which it was cut
/// off.
async fn read(watch: &mut dyn Watch, last: u64) -> Result<Vec<u64>, Vec<u64>> {
    let mut seen = Vec::new();
    while watch.progress() < Revision(last) {
        match watch.next().await {
            Ok(batch) => seen.extend(batch.events.iter().map(|it| it.revision.0)),
            Err(Error::Compacted { .. }) => return Err(seen),
            Err(error) => panic!("{error}"),
        }
    }
    Ok(seen)
}

fn expected(prefix: &str, after: u64, through: u64) -> Vec<u64> {
    let concerns = |it: &u64| commit(*it).events[0].key.starts_with(prefix.as_bytes());
    (after + 1..=through).filter(concerns).collect()
}

fn check_readers(ring: usize) {
    let hub = hub(ring);
    let writer = publish(&hub);
    let last = 1 + COMMITS;
    let readers = ["", "a", "b"].map(|prefix| {
        let hub = hub.clone();
        thread::spawn(move || {
            let mut watch = watch(&hub, prefix, 1).unwrap();
            // Only what concerns it wakes a watch.
            let end = *expected(prefix, 1, last).last().unwrap();
            let seen = block_on(read(&mut *watch, end)).unwrap();
            assert_eq!(seen, expected(prefix, 1, end), "{prefix:?}");
        })
    });
    readers.into_iter().for_each(|it| it.join().unwrap());
    writer.join().unwrap();
}

#[test]
fn every_reader_sees_every_event_once() {
    explore(|| check_readers(100));
}

#[test]
fn every_reader_sees_every_event_once_when_the_ring_is_short() {
    explore(|| check_readers(1));
}

#[test]
fn a_compaction_cuts_a_watch_off_or_hides_nothing() {
    explore(|| {
        let hub = hub(2);
        let writer = publish(&hub);
        let compactor = {
            let hub = hub.clone();
            thread::spawn(move || {
                for through in [2, 4] {
                    if hub.check_readable(Revision(through)).is_ok() {
                        hub.compact(Revision(through));
                    }
                }
            })
        };
        let reader = {
            let hub = hub.clone();
            thread::spawn(move || {
                let Ok(mut watch) = watch(&hub, "", 1) else { return };
                let (seen, is_cut) = match block_on(read(&mut *watch, 1 + COMMITS)) {
                    Ok(seen) => (seen, false),
                    Err(seen) => (seen, true),
                };
                let through = seen.last().copied().unwrap_or(1);
                assert_eq!(seen, expected("", 1, through));
                assert!(is_cut || through == 1 + COMMITS);
                assert!(!is_cut || through < 4, "what was read needs no history");
            })
        };
        [writer, compactor, reader].into_iter().for_each(|it| it.join().unwrap());
    });
}

#[test]
fn closing_wakes_whoever_waits() {
    explore(|| {
        let hub = hub(2);
        let readers = ["a", "never"].map(|prefix| {
            let hub = hub.clone();
            thread::spawn(move || {
                let Ok(mut watch) = watch(&hub, prefix, 1) else { return };
                let ended = block_on(async {
                    loop {
                        if let Err(error) = watch.next().await {
                            break error;
                        }
                    }
                });
                assert!(matches!(ended, Error::Closed), "{ended}");
            })
        });
        hub.publish(&[commit(2)]);
        hub.close();
        readers.into_iter().for_each(|it| it.join().unwrap());
    });
}

#[test]
fn progress_is_told_and_never_ahead() {
    explore(|| {
        let hub = hub(2);
        let writer = publish(&hub);
        let readers = [("a", 1), ("b", 3), ("never", 4)].map(|(prefix, after)| {
            let hub = hub.clone();
            thread::spawn(move || {
                let mut watch = watch(&hub, prefix, after).unwrap();
                let mut seen = Vec::new();
                watch.request_progress();
                let told = loop {
                    let batch = block_on(watch.next()).unwrap();
                    seen.extend(batch.events.iter().map(|it| it.revision.0));
                    if batch.events.is_empty() {
                        break batch.revision.0;
                    }
                };
                assert!(told >= after, "a watch of the future is told when it has come");
                let known = seen.last().copied().unwrap_or(0).max(told);
                assert_eq!(seen, expected(prefix, after, known));
                if seen.last() == Some(&told) || told > *seen.last().unwrap_or(&0) {
                    assert_eq!(seen, expected(prefix, after, told), "told too early");
                }
            })
        });
        readers.into_iter().for_each(|it| it.join().unwrap());
        writer.join().unwrap();
    });
}

#[test]
fn watches_come_and_go_while_others_are_woken() {
    explore(|| {
        let hub = hub(100);
        let writer = publish(&hub);
        let visitors = [EventFilter::All, EventFilter::DeletesOnly].map(|events| {
            let hub = hub.clone();
            thread::spawn(move || {
                for _ in 0..3 {
                    let range = KeyRange::prefix(b"a");
                    let request = WatchRequest { events, ..WatchRequest::new(range, None) };
                    let mut watch = hub.watch(request, None).unwrap();
                    let polled = block_on(futures_util::future::poll_immediate(watch.next()));
                    assert!(events == EventFilter::All || polled.is_none());
                }
            })
        });
        let mut stays = watch(&hub, "a", 1).unwrap();
        let end = *expected("a", 1, 1 + COMMITS).last().unwrap();
        assert_eq!(block_on(read(&mut *stays, end)), Ok(expected("a", 1, end)));
        visitors.into_iter().for_each(|it| it.join().unwrap());
        writer.join().unwrap();
    });
}
