//! Every small history, with a compaction of every revision at every time, read and watched from every revision.

use std::sync::Arc;

use futures_util::FutureExt as _;
use stdx::Random;

use super::bench::{Bench, Engine, run_seeds};
use crate::contract::{delete, put};
use crate::memory::Memory;
use crate::reference::Reference;
use crate::{Error, Event, KeyRange, Op, RangeRequest, Revision, Store, Txn, Watch, WatchRequest};

/// What one step of a history can be.
const N_STEPS: u64 = 6;

fn step(n: u64) -> Vec<Op> {
    match n {
        0 => vec![put("a", "1")],
        1 => vec![put("b", "1")],
        2 => vec![delete("a")],
        3 => vec![delete("b")],
        4 => vec![put("a", "2"), put("b", "2")],
        _ => vec![put("b", "3"), delete("a")],
    }
}

/// A compaction of `through` before the step `before`.
#[derive(Clone, Copy, Debug)]
struct Compaction {
    before: usize,
    through: Revision,
}

/// All histories of `length` steps on the memory engine, which answers at once. Returns how many answers were compared.
pub fn exhaustive(length: u32) -> u64 {
    let mut n_checks = 0;
    for number in 0..N_STEPS.pow(length) {
        let steps = steps_of(number, length);
        for compaction in compactions(&steps) {
            let store: Arc<dyn Store> = Arc::new(Memory::new());
            let checked = check_history(&store, &steps, compaction).now_or_never();
            n_checks += checked.expect("the memory engine answers at once");
        }
    }
    n_checks
}

/// Some histories of up to `length` steps on the engines with a disk.
pub fn sampled(seed: u64, rounds: u64, length: u32) {
    run_seeds("exhaustive", seed, rounds, |seed| async move {
        let random = Random::from_seed(seed);
        let steps = steps_of(random.below(N_STEPS.pow(length)), length);
        let compactions = compactions(&steps);
        let at = usize::try_from(random.below(compactions.len() as u64)).expect("an index");
        for engine in Engine::ALL {
            let bench = Bench::new(engine);
            check_history(bench.store(), &steps, compactions[at]).await;
        }
    });
}

fn steps_of(mut number: u64, length: u32) -> Vec<u64> {
    let mut steps = Vec::new();
    for _ in 0..length {
        steps.push(number % N_STEPS);
        number /= N_STEPS;
    }
    steps
}

/// Every revision that there is before each step and at the end.
fn compactions(steps: &[u64]) -> Vec<Compaction> {
    let mut model = Reference::default();
    let mut compactions = Vec::new();
    for before in 0..=steps.len() {
        let revisions = (1..=model.revision().0).map(Revision);
        compactions.extend(revisions.map(|through| Compaction { before, through }));
        if let Some(n) = steps.get(before) {
            model.txn(&Txn::of(step(*n))).expect("the steps are right");
        }
    }
    compactions
}

async fn check_history(store: &Arc<dyn Store>, steps: &[u64], compaction: Compaction) -> u64 {
    let mut model = Reference::default();
    let all = KeyRange::prefix(b"");
    let unread = store.watch(WatchRequest::new(all.clone(), None)).await.expect("readable");
    for before in 0..=steps.len() {
        if compaction.before == before {
            store.compact(compaction.through).await.expect("the revision is there");
            model.compact(compaction.through).expect("the revision is there");
        }
        if let Some(n) = steps.get(before) {
            let txn = Txn::of(step(*n));
            let (ours, theirs) = (store.txn(txn.clone()).await, model.txn(&txn));
            assert_eq!(ours.expect("right"), theirs.expect("right"), "{steps:?} {compaction:?}");
        }
    }
    let mut n_checks = check_unread(unread, &model).await;
    for range in [all, KeyRange::one(b"a")] {
        for at in (0..=model.revision().0 + 1).map(Revision) {
            let request = RangeRequest::latest(range.clone()).at(at);
            let (ours, theirs) = (store.range(request.clone()).await, model.range(&request));
            let is_same = match (&ours, &theirs) {
                (Ok(ours), Ok(theirs)) => ours == theirs,
                (Err(ours), Err(theirs)) => ours.to_string() == theirs.to_string(),
                _ => false,
            };
            assert!(is_same, "{steps:?} {compaction:?} at {at:?}: {ours:?}, not {theirs:?}");
            check_resume(store, &model, &range, at).await;
            n_checks += 2;
        }
    }
    n_checks
}

/// A watch from the beginning that nobody has read: it has everything, or is told that it has not.
async fn check_unread(mut watch: Box<dyn Watch>, model: &Reference) -> u64 {
    let expected = model.events_after(Revision(1));
    if expected.first().is_some_and(|it| it.revision <= model.oldest()) {
        let ended = watch.next().await;
        assert!(matches!(ended, Err(Error::Compacted { .. })), "{ended:?}");
        return 1;
    }
    assert_eq!(sorted(drain(&mut *watch, model.revision()).await), expected);
    1
}

async fn check_resume(
    store: &Arc<dyn Store>,
    model: &Reference,
    range: &KeyRange,
    after: Revision,
) {
    let watch = store.watch(WatchRequest::new(range.clone(), Some(after))).await;
    let mut watch = match watch {
        Ok(watch) => watch,
        Err(Error::Compacted { .. }) if after < model.oldest() => return,
        Err(error) => panic!("{error}: after {after:?}"),
    };
    assert!(after >= model.oldest(), "a watch in what was compacted, after {after:?}");
    let mut expected = model.events_after(after.min(model.revision()));
    expected.retain(|it| range.contains(&it.key));
    let events = drain(&mut *watch, model.revision()).await;
    assert_eq!(sorted(events), expected, "{range:?} after {after:?}");
}

async fn drain(watch: &mut dyn Watch, through: Revision) -> Vec<Event> {
    let mut events = Vec::new();
    while watch.progress() < through {
        let batch = watch.next().await.expect("history is there");
        assert!(watch.progress() >= batch.revision, "progress includes what was delivered");
        events.extend(batch.events);
    }
    events
}

fn sorted(mut events: Vec<Event>) -> Vec<Event> {
    events.sort_by(|a, b| (a.revision, &a.key).cmp(&(b.revision, &b.key)));
    events
}
