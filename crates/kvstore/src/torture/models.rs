//! Random histories on an engine and on the reference: every answer, every retained revision and
//! every watch must be the same.

use std::mem::discriminant;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use stdx::Random;

use super::bench::{Bench, Engine, run_seeds};
use super::steps::Step;
use crate::contract::events_through;
use crate::reference::Reference;
use crate::{
    Error, Event, EventFilter, KeyRange, RangeRequest, Revision, Store, Txn, TxnResponse, Watch,
    WatchRequest, txn_anywhere,
};

/// Longer than any run: nothing here ends by itself.
const TTL: Duration = Duration::from_secs(100_000);

/// Random histories of up to 40 steps on every engine.
pub fn models(seed: u64, rounds: u64) {
    run_seeds("models", seed, rounds, |seed| async move {
        let random = Random::from_seed(seed);
        let n_steps = 1 + random.below(40);
        let word = |_| u128::from(random.next_u64()) << 64 | u128::from(random.next_u64());
        let words: Vec<u128> = (0..n_steps).map(word).collect();
        for engine in Engine::ALL {
            check_words(engine, &words).await;
        }
    });
}

/// The history that these numbers stand for, on one engine.
pub async fn check_words(engine: Engine, words: &[u128]) {
    let mut run = Run { bench: Bench::new(engine), model: Reference::default(), watches: vec![] };
    for word in words {
        run.apply(Step::of(*word)).await;
    }
    run.finish_watches().await;
    run.check().await;
    run.bench.reopen();
    run.check().await;
}

struct Run {
    bench: Bench,
    model: Reference,
    watches: Vec<(KeyRange, Revision, Box<dyn Watch>)>,
}

impl Run {
    async fn apply(&mut self, step: Step) {
        let store = self.bench.store().clone();
        match step {
            Step::Txn(txn) => {
                let answer = txn_anywhere(&*store, txn.clone()).await;
                check_answer(&txn, answer, self.model.txn(&txn));
            }
            Step::Burst(txns) => {
                let answers = join_all(txns.iter().map(|it| store.txn(it.clone()))).await;
                for (txn, answer) in txns.iter().zip(answers) {
                    check_answer(txn, answer, self.model.txn(txn));
                }
            }
            Step::Compact(hundredths) => {
                let (oldest, newest) = (self.model.oldest().0, self.model.revision().0);
                let through = Revision(oldest + (newest - oldest) * hundredths / 100);
                store.compact(through).await.expect("what is retained can be compacted");
                self.model.compact(through).expect("what is retained can be compacted");
            }
            Step::Reopen => {
                self.finish_watches().await;
                self.check_present().await;
                drop(store);
                self.bench.reopen();
                self.check_present().await;
            }
            Step::Grant(id) => {
                let (ours, theirs) =
                    (store.lease_grant(Some(id), TTL).await, self.model.grant(id, TTL));
                assert_eq!(ours.is_ok(), theirs.is_ok(), "grant {id:?}: {ours:?}");
            }
            Step::Revoke(id) => match (store.lease_revoke(id).await, self.model.revoke(id)) {
                (Ok(ours), Ok(theirs)) => assert_eq!(ours, theirs, "revoke {id:?}"),
                (ours, theirs) => assert_eq!(ours.is_ok(), theirs.is_ok(), "revoke {id:?}"),
            },
            Step::KeepAlive(id) => {
                let kept = store.lease_keep_alive(id).await;
                let is_there = self.model.leases().contains_key(&id);
                assert_eq!(kept.is_ok(), is_there, "keep {id:?} alive: {kept:?}");
            }
            Step::Watch(range) => {
                let request = WatchRequest::new(range.clone(), None);
                let watch = store.watch(request).await.expect("the present can be watched");
                self.watches.push((range, self.model.revision(), watch));
            }
        }
    }

    /// What the watches that nobody read have to tell.
    async fn finish_watches(&mut self) {
        for (range, start, mut watch) in self.watches.drain(..) {
            let expected = expected_events(&self.model, start, &range, EventFilter::All);
            let first = expected.first().map(|it| it.revision);
            if first.is_some_and(|it| it <= self.model.oldest()) {
                let ended = watch.next().await;
                assert!(matches!(ended, Err(Error::Compacted { .. })), "{ended:?}");
                continue;
            }
            let events = events_through(&mut *watch, self.model.revision()).await;
            assert_eq!(sorted(events), expected, "{range:?} from {start:?} on");
        }
    }

    async fn check_present(&self) {
        let (store, model) = (self.bench.store(), &self.model);
        assert_eq!(store.revision(), model.revision());
        assert_eq!(store.oldest(), model.oldest());
        let all = RangeRequest::latest(KeyRange::prefix(b""));
        let (ours, theirs) = (store.range(all.clone()).await, model.range(&all));
        assert_eq!(ours.expect("readable"), theirs.expect("readable"));
        let status = store.status().await.expect("the store can be asked");
        assert_eq!(status.n_keys, model.keys().len() as u64);
        let leases: Vec<_> = model.leases().keys().copied().collect();
        assert_eq!(store.leases().await.expect("the store can be asked"), leases);
        for id in leases {
            let lease = store.lease(id).await.expect("it is there");
            assert_eq!((lease.keys, lease.granted), (model.lease_keys(id), TTL));
        }
    }

    /// Everything that can be asked.
    async fn check(&self) {
        self.check_present().await;
        let (store, model) = (self.bench.store(), &self.model);
        let ranges = [KeyRange::prefix(b""), KeyRange::prefix(b"a"), KeyRange::one(b"b")];
        for at in (0..=model.revision().0 + 1).map(Revision) {
            for range in &ranges {
                check_at(store, model, range, at).await;
                let filter = [EventFilter::All, EventFilter::PutsOnly, EventFilter::DeletesOnly];
                let filter = filter[usize::try_from(at.0 % 3).expect("small")];
                check_watch(store, model, range, at, filter).await;
            }
        }
    }
}

fn check_answer(txn: &Txn, ours: Result<TxnResponse, Error>, theirs: Result<TxnResponse, Error>) {
    match (ours, theirs) {
        (Ok(ours), Ok(theirs)) => assert_eq!(ours, theirs, "{txn:?}"),
        (Err(ours), Err(theirs)) => {
            assert_eq!(discriminant(&ours), discriminant(&theirs), "{ours} and {theirs}: {txn:?}");
        }
        (ours, theirs) => panic!("{ours:?} is not {theirs:?}: {txn:?}"),
    }
}

async fn check_at(store: &Arc<dyn Store>, model: &Reference, range: &KeyRange, at: Revision) {
    let request = RangeRequest::latest(range.clone()).at(at);
    match (store.range(request.clone()).await, model.range(&request)) {
        (Ok(ours), Ok(theirs)) => assert_eq!(ours, theirs, "{range:?} at {at:?}"),
        (Err(ours), Err(theirs)) => assert_eq!(discriminant(&ours), discriminant(&theirs)),
        (ours, theirs) => panic!("{ours:?} is not {theirs:?}: {range:?} at {at:?}"),
    }
}

async fn check_watch(
    store: &Arc<dyn Store>,
    model: &Reference,
    range: &KeyRange,
    after: Revision,
    events: EventFilter,
) {
    let request = WatchRequest { events, ..WatchRequest::new(range.clone(), Some(after)) };
    match store.watch(request).await {
        Err(Error::Compacted { .. }) => assert!(after < model.oldest(), "after {after:?}"),
        Err(error) => panic!("{error}: after {after:?}"),
        Ok(mut watch) => {
            assert!(after >= model.oldest(), "a watch in what was compacted, after {after:?}");
            let found = events_through(&mut *watch, model.revision()).await;
            let expected = expected_events(model, after, range, events);
            assert_eq!(sorted(found), expected, "{range:?} after {after:?}");
        }
    }
}

fn expected_events(
    model: &Reference,
    after: Revision,
    range: &KeyRange,
    filter: EventFilter,
) -> Vec<Event> {
    let mut events = model.events_after(after);
    events.retain(|it| range.contains(&it.key) && filter.admits(it));
    events
}

/// By revision and key: within a transaction any order is right.
fn sorted(mut events: Vec<Event>) -> Vec<Event> {
    let is_ordered = events.is_sorted_by_key(|it| it.revision);
    assert!(is_ordered, "revisions went back");
    events.sort_by(|a, b| (a.revision, &a.key).cmp(&(b.revision, &b.key)));
    events
}
