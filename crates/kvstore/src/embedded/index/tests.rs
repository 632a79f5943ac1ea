//! What is found at each revision, and what becomes needless, for a small history.

use bytes::Bytes;

use super::{Found, Index, Swept, WallTime};
use crate::embedded::log::Place;
use crate::embedded::record::EventRecord;
use crate::state::{Drafted, State};
use crate::{KeyRange, Op, Revision, Txn};

struct Store {
    state: State,
    index: Index,
}

impl Store {
    /// Each text is a transaction: `+a` puts the key a, `-a` deletes it. Each goes into a segment
    /// of its own.
    fn of(txns: &[&str]) -> Self {
        let mut store = Self { state: State::empty(0), index: Index::default() };
        for text in txns {
            let op = |it: &str| match it.split_at(1) {
                ("+", key) => Op::put(key.to_owned(), "value"),
                (_, key) => Op::delete(key.as_bytes()),
            };
            let txn = Txn::of(text.split(' ').map(op).collect()).without_previous_values();
            let decided = Drafted::new(&store.state)
                .on(&store.state)
                .txn(&txn, &mut |_, _| panic!("no past"));
            let commit = std::sync::Arc::new(decided.unwrap().1.expect("every transaction writes"));
            let Self { state, index } = &mut store;
            state.apply(&commit, |event, before| {
                index.note_event(commit.revision, &EventRecord::of(event), before);
            });
            let segment = u32::try_from(commit.revision.0).unwrap();
            let (place, size) = (Place { segment, offset: 0 }, (100, commit.events.len()));
            index.note_commit(commit.revision, place, size, WallTime(0));
        }
        store
    }

    /// `a2 b3`: what there was, and since which revision.
    fn at(&self, at: u64, step: usize) -> String {
        let mut found = Vec::new();
        let mut range = KeyRange::prefix(b"");
        loop {
            let limits = (Revision(at), step);
            let next = self.index.visit_at(&self.state, &range, limits, |it| {
                let (key, revision) = match it {
                    Found::Current { key, entry } => (key, entry.mod_revision),
                    Found::Superseded { key, revision } => (key, revision),
                };
                found.push(format!("{}{}", String::from_utf8_lossy(key), revision.0));
            });
            match next {
                Some(next) => range.start = next,
                None => return found.join(" "),
            }
        }
    }

    fn sweep(&mut self, oldest: u64, step: usize) {
        let mut from = Bytes::new();
        while let Swept::Until(next) = self.index.sweep(&self.state, Revision(oldest), &from, step)
        {
            from = next;
        }
    }

    /// Revisions of which something is needed.
    fn needed(&self) -> Vec<u64> {
        self.index.commits(Revision(0), Revision(99)).map(|(it, _)| it.0).collect()
    }
}

const HISTORY: [&str; 6] = ["+a +b", "+c", "+a", "-b", "+a +b", "-c"];
const STATES: [&str; 7] = ["", "a2 b2", "a2 b2 c3", "a4 b2 c3", "a4 c3", "a6 b6 c3", "a6 b6"];

#[test]
fn every_revision_is_found_in_steps_of_any_size() {
    let store = Store::of(&HISTORY);
    for step in [1, 2, 100] {
        for (at, expected) in (1..).zip(STATES) {
            assert_eq!(store.at(at, step), expected, "at {at}");
        }
    }
}

#[test]
fn a_sweep_forgets_what_only_the_given_up_past_needs() {
    let needed: [&[u64]; 7] = [
        &[2, 3, 4, 5, 6, 7],
        &[2, 3, 4, 5, 6, 7],
        &[2, 3, 4, 5, 6, 7],
        &[2, 3, 4, 5, 6, 7],
        &[3, 4, 6, 7],
        &[3, 6, 7],
        &[6],
    ];
    for step in [1, 100] {
        for (oldest, needed) in (1..).zip(needed) {
            let mut store = Store::of(&HISTORY);
            store.sweep(oldest, step);
            assert_eq!(store.needed(), needed, "compacted through {oldest}");
            for (at, expected) in (1..).zip(STATES).skip_while(|(at, _)| *at < oldest) {
                assert_eq!(store.at(at, 100), expected, "at {at}, compacted through {oldest}");
            }
            let usage = store.index.usage();
            let n_puts: u64 = usage.values().map(|it| it.n_puts_needless).sum();
            let n_bytes: u64 = usage.values().map(|it| it.needed).sum();
            if oldest == 7 {
                assert_eq!((n_puts, n_bytes), (4, 100), "a2 b2 c3 a4 are needless");
            }
        }
    }
}
