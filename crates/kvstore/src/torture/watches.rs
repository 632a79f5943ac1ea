//! Many watches of all kinds, quick and slow, while others write and compact: every recording is
//! validated against what the writers were told.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use stdx::Random;
use tokio::task::JoinSet;

use super::bench::{Bench, Engine, run_seeds};
use crate::contract::{delete, put};
use crate::reference::Reference;
use crate::validators::{Recording, validate};
use crate::{
    Error, Event, EventFilter, KeyRange, Op, OpResult, Revision, Store, Txn, TxnResponse, Watch,
    WatchRequest,
};

const WRITERS: u64 = 3;
const WATCHERS: u64 = 12;

/// Each round is another mix.
pub fn watches(seed: u64, rounds: u64) {
    run_seeds("watches", seed, rounds, |seed| async move {
        for engine in Engine::ALL {
            check_engine(engine, seed).await;
        }
    });
}

async fn check_engine(engine: Engine, seed: u64) {
    let bench = Bench::new(engine);
    let store = bench.store();
    let random = Random::from_seed(seed);
    let is_over = Arc::new(AtomicBool::new(false));
    let mut watchers = JoinSet::new();
    for n in 0..WATCHERS {
        let (store, random) = (store.clone(), Random::from_seed(seed ^ (n << 32)));
        let is_over = is_over.clone();
        watchers.spawn(async move { watch_to_the_end(&store, &random, &is_over).await });
    }
    let mut writers = JoinSet::new();
    for writer in 0..WRITERS {
        let (store, random) = (store.clone(), Random::from_seed(seed ^ (writer << 48)));
        writers.spawn(async move { write(&store, &random, writer).await });
    }
    let compactor = compact(store, &random);
    let (written, ()) = tokio::join!(biased; writers.join_all(), compactor);
    let truth = replay(written.into_iter().flatten().collect());
    is_over.store(true, Ordering::SeqCst);
    for recordings in watchers.join_all().await {
        for recording in recordings {
            if let Err(broken) = validate(&recording, &truth) {
                panic!("{engine:?}: {broken}: {:?}", recording.request);
            }
        }
    }
}

/// Returns what was acknowledged.
async fn write(store: &Arc<dyn Store>, random: &Random, writer: u64) -> Vec<(Revision, Txn)> {
    let mut written = Vec::new();
    for n in 0..60 {
        let key = |n: u64| {
            format!("{}{}", ["a", "b", "c"][usize::try_from(n % 3).expect("small")], n % 5)
        };
        let value = format!("{writer}.{n}");
        let (one, other) = (random.below(15), random.below(15));
        let ops = match random.below(6) {
            0 => vec![delete(&key(one))],
            1 if key(one) != key(other) => vec![put(&key(one), &value), delete(&key(other))],
            2 => vec![Op::Delete(KeyRange::prefix(b"b"))],
            3 if key(one) != key(other) => vec![put(&key(one), &value), put(&key(other), &value)],
            _ => vec![put(&key(one), &value)],
        };
        let txn = Txn::of(ops);
        let txn = if random.below(2) == 0 { txn } else { txn.relaxed() };
        let response = store.txn(txn.clone()).await.expect("a write succeeds");
        if has_written(&response) {
            written.push((response.revision, txn));
        }
        tokio::task::yield_now().await;
    }
    written
}

async fn compact(store: &Arc<dyn Store>, random: &Random) {
    for _ in 0..30 {
        for _ in 0..random.below(40) {
            tokio::task::yield_now().await;
        }
        let (oldest, newest) = (store.oldest().0, store.revision().0);
        let through = Revision(oldest + random.below(newest - oldest + 1));
        store.compact(through).await.expect("what is retained can be compacted");
    }
}

/// What happened, by replaying what was acknowledged.
fn replay(mut written: Vec<(Revision, Txn)>) -> Vec<Event> {
    let mut model = Reference::default();
    written.sort_by_key(|(revision, _)| *revision);
    for (revision, txn) in written {
        let response = model.txn(&txn).expect("the transactions are right");
        assert_eq!(response.revision, revision, "every revision was acknowledged to somebody");
    }
    model.events_after(Revision(1))
}

fn has_written(response: &TxnResponse) -> bool {
    response.results.iter().any(|it| match it {
        OpResult::Put { .. } => true,
        OpResult::Delete { previous } => !previous.is_empty(),
        OpResult::Range(_) | OpResult::Txn(_) => false,
    })
}

/// Watches until the store is at its end, beginning again where a compaction took the ground away.
async fn watch_to_the_end(
    store: &Arc<dyn Store>,
    random: &Random,
    is_over: &AtomicBool,
) -> Vec<Recording> {
    let ranges = [KeyRange::prefix(b""), KeyRange::prefix(b"a"), KeyRange::one(b"b1")];
    let filters =
        [EventFilter::All, EventFilter::All, EventFilter::PutsOnly, EventFilter::DeletesOnly];
    let pick = |n: usize| usize::try_from(random.below(n as u64)).expect("an index");
    let (range, events) = (ranges[pick(3)].clone(), filters[pick(4)]);
    let (previous, slowness) = (random.below(2) == 0, random.below(60));
    let mut recordings: Vec<Recording> = Vec::new();
    let mut after = store.oldest();
    loop {
        let request = WatchRequest { range: range.clone(), after: Some(after), events, previous };
        let mut watch = match store.watch(request.clone()).await {
            Ok(watch) => watch,
            Err(Error::Compacted { oldest, .. }) => {
                after = oldest;
                continue;
            }
            Err(error) => panic!("{error}"),
        };
        let mut recording = Recording::new(request, after);
        let ended = read(&mut *watch, &mut recording, random, slowness).await;
        after = recording.progress;
        recordings.push(recording);
        match ended {
            Ok(()) if is_over.load(Ordering::SeqCst) && after >= store.revision() => {
                return recordings;
            }
            Ok(()) => {}
            Err(Error::Compacted { oldest, .. }) => after = oldest,
            Err(error) => panic!("{error}"),
        }
    }
}

/// Reads for a while: sometimes waits, and gives up waiting, sometimes asks how far the store is.
async fn read(
    watch: &mut dyn Watch,
    recording: &mut Recording,
    random: &Random,
    slowness: u64,
) -> Result<(), Error> {
    for _ in 0..random.below(12) {
        for _ in 0..slowness {
            tokio::task::yield_now().await;
        }
        let waiting = tokio::time::timeout(Duration::from_millis(1), recording.next(watch));
        match waiting.await {
            Ok(result) => result?,
            Err(_) => watch.request_progress(),
        }
    }
    watch.request_progress();
    recording.next(watch).await
}
