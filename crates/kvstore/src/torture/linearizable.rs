//! Concurrent clients on every engine, and the checker.

use std::sync::Arc;

use stdx::Random;
use tokio::task::JoinSet;

use super::bench::{Bench, Engine, run_seeds};
use crate::linearizability::{Recorder, Workload, check, run};

/// Each round is another number of clients and keys.
pub fn linearizable(seed: u64, rounds: u64) {
    run_seeds("linearizability", seed, rounds, |seed| async move {
        for engine in Engine::ALL {
            check_engine(engine, seed).await;
        }
    });
}

async fn check_engine(engine: Engine, seed: u64) {
    let random = Random::from_seed(seed);
    let bench = Bench::new(engine);
    let recorder = Arc::new(Recorder::default());
    let n_clients = 2 + u32::try_from(random.below(7)).expect("small");
    let workload = Workload { keys: 1 + random.below(5), operations: 60, ..Workload::default() };
    let mut clients = JoinSet::new();
    for id in 0..n_clients {
        let (client, random) = (recorder.client(id, bench.store().clone()), random.clone());
        clients.spawn(async move { run(&client, &id.to_string(), &random, workload).await });
    }
    clients.join_all().await;
    check(&recorder.history()).unwrap_or_else(|error| panic!("{engine:?}: {error}"));
}
