//! Concurrent clients see each engine as if they came one after another.

#![expect(clippy::unwrap_used, reason = "a panic is a failed test")]

use std::sync::Arc;

use futures_util::future::join_all;
use kvstore::Store;
use kvstore::embedded::{Embedded, Options};
use kvstore::linearizability::{Recorder, Workload, check, run};
use kvstore::memory::Memory;
use stdx::Random;
use tempfile::TempDir;

const CLIENTS: u32 = 6;

async fn check_store(store: Arc<dyn Store>, seed: u64) {
    let recorder = Arc::new(Recorder::default());
    let clients: Vec<_> = (0..CLIENTS).map(|id| recorder.client(id, store.clone())).collect();
    let random = Random::from_seed(seed);
    let runs = clients.iter().enumerate().map(|(n, client)| {
        let (random, name) = (random.clone(), n.to_string());
        async move { run(client, &name, &random, Workload::default()).await }
    });
    join_all(runs).await;
    let history = recorder.history();
    assert!(history.operations.len() >= 600);
    check(&history).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
}

#[tokio::test]
async fn the_memory_engine_is_linearizable() {
    for seed in 0..10 {
        check_store(Arc::new(Memory::new()), seed).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_embedded_engine_is_linearizable() {
    for seed in 0..4 {
        let dir = TempDir::new().unwrap();
        check_store(Embedded::open(dir.path(), Options::default()).unwrap(), seed).await;
    }
}
