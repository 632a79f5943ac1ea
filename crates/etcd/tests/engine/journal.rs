//! What clients asked and were told, and the check of it. Every answer carries a revision, so the one order that the store
//! claims is known, and linearizability is: each answer is right at its revision, and what began after something ended is
//! not before it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use etcd::engine::Etcd;
use kvstore::{
    Batch, Compare, Error, Event, KeyRange, Op, RangeRequest, Revision, Store, Txn, WatchRequest,
};
use stdx::Random;
use tokio::time::Instant;

const KEYS: &[&str] = &["k/a", "k/b", "k/c"];

#[derive(Default)]
pub(crate) struct Journal(Mutex<Vec<Entry>>);

#[derive(Debug)]
struct Entry {
    began: Instant,
    ended: Instant,
    asked: Asked,
    told: Told,
}

#[derive(Clone, Debug)]
enum Asked {
    Read {
        key: &'static str,
    },
    Put {
        key: &'static str,
        value: String,
    },
    /// If it was last written then.
    Swap {
        key: &'static str,
        seen: Revision,
        value: String,
    },
    Delete {
        key: &'static str,
        seen: Revision,
    },
}

#[derive(Debug)]
enum Told {
    /// With what was read: when it was written, and what it is.
    Read(Revision, Option<(Revision, String)>),
    Written(Revision),
    Refused(Revision),
    Failed,
    Unknown,
}

impl Journal {
    /// One random operation, whose value is `value`. True if it was answered.
    pub(crate) async fn operate(&self, store: &dyn Store, random: &Random, value: &str) -> bool {
        let key = KEYS[random.below(KEYS.len() as u64) as usize];
        let read = self.read(store, key).await;
        let Some(seen) = read else { return false };
        let compare = Compare::mod_revision(key.as_bytes(), seen);
        let value = value.to_owned();
        let (asked, txn) = match random.below(8) {
            0 => return true,
            1 => {
                let txn = Txn::of(vec![Op::put(key, value.clone())]);
                (Asked::Put { key, value }, txn)
            }
            2 => {
                let txn = Txn::when(vec![compare], vec![Op::delete(key.as_bytes())]);
                (Asked::Delete { key, seen }, txn)
            }
            _ => {
                let txn = Txn::when(vec![compare], vec![Op::put(key, value.clone())]);
                (Asked::Swap { key, seen, value }, txn)
            }
        };
        let began = Instant::now();
        let told = match store.txn(txn).await {
            Ok(it) if it.succeeded => Told::Written(it.revision),
            Ok(it) => Told::Refused(it.revision),
            Err(Error::Unavailable { .. }) => Told::Failed,
            Err(Error::Uncertain { .. }) => Told::Unknown,
            Err(err) => panic!("{asked:?}: {err}"),
        };
        let is_done = matches!(told, Told::Written(_) | Told::Refused(_));
        self.note(began, asked, told);
        is_done
    }

    async fn read(&self, store: &dyn Store, key: &'static str) -> Option<Revision> {
        let began = Instant::now();
        let range = RangeRequest::latest(KeyRange::one(key.as_bytes()));
        let response = match store.range(range).await {
            Ok(response) => response,
            Err(Error::Unavailable { .. }) => {
                self.note(began, Asked::Read { key }, Told::Failed);
                return None;
            }
            Err(err) => panic!("reading {key}: {err}"),
        };
        let entry = response.entries.first();
        let found =
            entry.map(|it| (it.mod_revision, String::from_utf8_lossy(&it.value).into_owned()));
        let seen = found.as_ref().map_or(Revision(0), |it| it.0);
        self.note(began, Asked::Read { key }, Told::Read(response.revision, found));
        Some(seen)
    }

    fn note(&self, began: Instant, asked: Asked, told: Told) {
        let entry = Entry { began, ended: Instant::now(), asked, told };
        self.0.lock().unwrap().push(entry);
    }

    pub(crate) fn counts(&self) -> BTreeMap<&'static str, usize> {
        let mut counts = BTreeMap::new();
        for entry in &*self.0.lock().unwrap() {
            let name = match entry.told {
                Told::Read(..) => "read",
                Told::Written(_) => "written",
                Told::Refused(_) => "refused",
                Told::Failed => "failed",
                Told::Unknown => "unknown",
            };
            *counts.entry(name).or_default() += 1;
        }
        counts
    }

    /// Panics with what is wrong. Returns how many operations were checked.
    pub(crate) fn check(&self, histories: &[Vec<Event>], last: Revision) -> usize {
        let history = &histories[0];
        check_history(history, last);
        for other in histories {
            assert_eq!(other, history, "two servers saw different histories");
        }
        let entries = self.0.lock().unwrap();
        for entry in &*entries {
            check_entry(entry, history);
        }
        check_order(&entries);
        entries.len()
    }
}

/// Every event, until the key `end` is written.
pub(crate) async fn follow(engine: Arc<Etcd>) -> Vec<Event> {
    let request = WatchRequest::new(KeyRange::prefix(b""), Some(Revision(1)));
    let mut watch = engine.watch(request).await.unwrap();
    let mut history: Vec<Event> = Vec::new();
    loop {
        let Batch { events, revision } = watch.next().await.unwrap();
        assert!(events.iter().all(|it| it.revision <= revision), "events up to the revision");
        let is_end = events.iter().any(|it| it.key == "end");
        history.extend(events);
        if is_end {
            return history;
        }
    }
}

/// Without a gap, in order, each key of a revision once, and each with what was before.
fn check_history(history: &[Event], last: Revision) {
    let mut state: BTreeMap<&[u8], &Event> = BTreeMap::new();
    let mut revision = Revision(1);
    for event in history {
        assert!(
            event.revision == revision || event.revision.0 == revision.0 + 1,
            "after {revision:?} comes {:?}",
            event.revision
        );
        revision = event.revision;
        let before = state.insert(&event.key, event).and_then(|it| it.value.clone());
        assert_eq!(event.previous, before, "the previous value of {event:?}");
    }
    assert_eq!(revision, last, "the history is complete");
}

/// The value of `key` after `revision`: when it was written, and what it is.
fn state_at(history: &[Event], key: &str, revision: Revision) -> Option<(Revision, String)> {
    let events = history.iter().take_while(|it| it.revision <= revision);
    let value = events.filter(|it| it.key == key).last()?.value.as_ref()?;
    Some((value.mod_revision, String::from_utf8_lossy(&value.value).into_owned()))
}

fn written<'a>(history: &'a [Event], value: &str) -> Vec<&'a Event> {
    let is_it = |it: &&Event| it.value.as_ref().is_some_and(|it| it.value == value);
    history.iter().filter(is_it).collect()
}

fn check_entry(entry: &Entry, history: &[Event]) {
    let seen_at = |key: &str, revision: Revision| {
        state_at(history, key, revision).map_or(Revision(0), |it| it.0)
    };
    match (&entry.asked, &entry.told) {
        (Asked::Read { key }, Told::Read(revision, found)) => {
            assert_eq!(state_at(history, key, *revision), *found, "{entry:?}");
        }
        (Asked::Put { key, value } | Asked::Swap { key, value, .. }, told) => {
            let events = written(history, value);
            assert!(events.len() <= 1, "written twice: {entry:?}");
            assert!(events.iter().all(|it| it.key == *key), "{entry:?}");
            match told {
                Told::Written(revision) => {
                    assert_eq!(events.first().map(|it| it.revision), Some(*revision), "{entry:?}");
                }
                Told::Refused(_) | Told::Failed => assert!(events.is_empty(), "{entry:?}"),
                Told::Unknown | Told::Read(..) => {}
            }
        }
        _ => {}
    }
    match (&entry.asked, &entry.told) {
        (Asked::Swap { key, seen, .. } | Asked::Delete { key, seen }, Told::Written(revision)) => {
            // Deleting what is not there writes nothing.
            let is_nothing = *seen == Revision(0) && matches!(entry.asked, Asked::Delete { .. });
            let before = if is_nothing { *revision } else { Revision(revision.0 - 1) };
            assert_eq!(seen_at(key, before), *seen, "{entry:?}");
        }
        (Asked::Swap { key, seen, .. } | Asked::Delete { key, seen }, Told::Refused(revision)) => {
            assert_ne!(seen_at(key, *revision), *seen, "{entry:?}");
        }
        _ => {}
    }
}

/// What began after something had ended is not before it.
fn check_order(entries: &[Entry]) {
    let revision = |it: &Entry| match it.told {
        Told::Read(revision, _) | Told::Written(revision) | Told::Refused(revision) => {
            Some(revision)
        }
        Told::Failed | Told::Unknown => None,
    };
    let mut by_end: Vec<(Instant, Revision)> =
        entries.iter().filter_map(|it| Some((it.ended, revision(it)?))).collect();
    by_end.sort();
    let mut by_begin: Vec<&Entry> = entries.iter().filter(|it| revision(it).is_some()).collect();
    by_begin.sort_by_key(|it| it.began);
    let mut ended = by_end.into_iter().peekable();
    let mut floor = Revision(0);
    for entry in by_begin {
        while let Some((_, revision)) = ended.next_if(|it| it.0 < entry.began) {
            floor = floor.max(revision);
        }
        assert!(revision(entry) >= Some(floor), "goes back before {floor:?}: {entry:?}");
    }
}
