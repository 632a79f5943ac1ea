//! Groups of watches with one reader, among every interleaving with writers, compactions and the
//! end of the store.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures_util::future::poll_immediate;
use shuttle::future::block_on;
use shuttle::thread;

use super::hub::Hub;
use super::{COMMITS, Everything, expected, explore, hub, publish};
use crate::{Error, KeyRange, Revision, Told, WatchId, WatchRequest, Watches};

const PREFIXES: [&str; 3] = ["", "a", "b"];
const LAST: u64 = 1 + COMMITS;

fn group(hub: &Arc<Hub>) -> Box<dyn Watches> {
    hub.watches(Some(Arc::new(Everything)))
}

fn add(watches: &mut dyn Watches, id: usize, prefix: &str, after: u64) -> Result<(), Error> {
    let range = KeyRange::prefix(prefix.as_bytes());
    block_on(watches.add(name(id), WatchRequest::new(range, Some(Revision(after)))))
}

fn name(id: usize) -> WatchId {
    WatchId(i64::try_from(id).unwrap())
}

type Seen = BTreeMap<WatchId, Vec<u64>>;

/// Takes one thing that is told; the progress of all, if it is that.
fn read(watches: &mut dyn Watches, seen: &mut Seen) -> Option<Revision> {
    match block_on(watches.next()).unwrap() {
        Told::Batch { id, batch } => {
            let revisions = batch.events.iter().map(|it| it.revision.0);
            seen.entry(id).or_default().extend(revisions);
            None
        }
        Told::Progress(revision) => Some(revision),
        Told::Failed { id, error } => panic!("{id:?}: {error}"),
    }
}

fn check_group(ring: usize) {
    let hub = hub(ring);
    let writer = publish(&hub);
    let reader = thread::spawn(move || {
        let mut group = group(&hub);
        for (id, prefix) in PREFIXES.iter().enumerate() {
            add(&mut *group, id, prefix, 1).unwrap();
        }
        let mut seen = Seen::new();
        // Only what concerns a watch wakes its group.
        let ends = PREFIXES.map(|it| *expected(it, 1, LAST).last().unwrap());
        let is_there = |group: &dyn Watches, id: usize| {
            group.progress(name(id)).unwrap() >= Revision(ends[id])
        };
        while !(0..PREFIXES.len()).all(|id| is_there(&*group, id)) {
            read(&mut *group, &mut seen);
        }
        for (id, prefix) in PREFIXES.iter().enumerate() {
            let seen = &seen[&name(id)];
            assert_eq!(*seen, expected(prefix, 1, ends[id]), "{prefix:?}");
        }
    });
    [writer, reader].into_iter().for_each(|it| it.join().unwrap());
}

#[test]
fn every_watch_of_a_group_sees_every_event_once() {
    explore(|| check_group(100));
}

#[test]
fn every_watch_of_a_group_sees_every_event_once_when_the_ring_is_short() {
    explore(|| check_group(1));
}

/// One watch is there, one comes after the question, and one begins in the future.
#[test]
fn progress_of_a_group_is_told_and_never_ahead() {
    explore(|| {
        let hub = hub(2);
        let writer = publish(&hub);
        let reader = thread::spawn(move || {
            let mut group = group(&hub);
            let mut seen = Seen::new();
            add(&mut *group, 0, "a", 1).unwrap();
            add(&mut *group, 1, "b", 3).unwrap();
            group.request_progress();
            add(&mut *group, 2, "", 1).unwrap();
            let told = loop {
                if let Some(told) = read(&mut *group, &mut seen) {
                    break told.0;
                }
            };
            assert!(told >= 3, "a watch of the future is told when it has come");
            for (id, prefix, after) in [(0, "a", 1), (1, "b", 3), (2, "", 1)] {
                let seen = seen.remove(&name(id)).unwrap_or_default();
                let known = seen.last().copied().unwrap_or(0).max(told);
                assert_eq!(seen, expected(prefix, after, known), "{prefix:?} told too early");
            }
        });
        [writer, reader].into_iter().for_each(|it| it.join().unwrap());
    });
}

#[test]
fn watches_of_a_group_come_and_go() {
    explore(|| {
        let hub = hub(1);
        let writer = publish(&hub);
        let reader = thread::spawn(move || {
            let mut group = group(&hub);
            add(&mut *group, 0, "a", 1).unwrap();
            let mut seen = Seen::new();
            for _ in 0..2 {
                for id in [1, 2] {
                    add(&mut *group, id, "", 1).unwrap();
                }
                // Perhaps while the history is being read for one of them.
                if let Some(Ok(Told::Batch { id: WatchId(0), batch })) =
                    block_on(poll_immediate(group.next()))
                {
                    let revisions = batch.events.iter().map(|it| it.revision.0);
                    seen.entry(name(0)).or_default().extend(revisions);
                }
                group.remove(name(1));
                group.remove(name(2));
            }
            let end = *expected("a", 1, LAST).last().unwrap();
            while group.progress(name(0)).unwrap() < Revision(end) {
                read(&mut *group, &mut seen);
            }
            assert_eq!(seen[&name(0)], expected("a", 1, end));
            assert_eq!(seen.len(), 1, "a removed watch was told");
        });
        [writer, reader].into_iter().for_each(|it| it.join().unwrap());
    });
}

#[test]
fn a_compaction_cuts_off_only_who_needs_what_is_gone() {
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
        let reader = thread::spawn(move || {
            let mut group = group(&hub);
            if add(&mut *group, 0, "", 1).is_err() {
                return;
            }
            add(&mut *group, 1, "never", 9).unwrap();
            let mut seen = Vec::new();
            while seen.last() != Some(&LAST) {
                match block_on(group.next()).unwrap() {
                    Told::Batch { batch, .. } => {
                        seen.extend(batch.events.iter().map(|it| it.revision.0));
                    }
                    Told::Failed { id, error } => {
                        assert_eq!(id, name(0), "{error}");
                        group.remove(id);
                        assert!(seen.last().is_none_or(|it| *it < 4), "it needed no history");
                        break;
                    }
                    Told::Progress(_) => panic!("nobody asked"),
                }
            }
            let through = seen.last().copied().unwrap_or(1);
            assert_eq!(seen, expected("", 1, through));
            assert_eq!(group.progress(name(1)), Some(Revision(9)));
        });
        [writer, compactor, reader].into_iter().for_each(|it| it.join().unwrap());
    });
}

#[test]
fn closing_wakes_the_reader_of_a_group() {
    explore(|| {
        let hub = hub(2);
        let reader = {
            let hub = hub.clone();
            thread::spawn(move || {
                let mut group = group(&hub);
                let added = ["a", "never"]
                    .iter()
                    .enumerate()
                    .try_for_each(|(id, prefix)| add(&mut *group, id, prefix, 1));
                if added.is_err() {
                    return;
                }
                let ended = block_on(async {
                    loop {
                        if let Err(error) = group.next().await {
                            break error;
                        }
                    }
                });
                assert!(matches!(ended, Error::Closed), "{ended}");
            })
        };
        hub.publish(&[super::commit(2)]);
        hub.close();
        reader.join().unwrap();
    });
}
