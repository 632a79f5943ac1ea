//! Every engine keeps the contract.

#![expect(clippy::unwrap_used, reason = "a panic is a failed test")]

use std::sync::Arc;

use kvstore::Store;
use kvstore::contract::{self, Traits};
use kvstore::embedded::{Embedded, Options};
use kvstore::memory::Memory;
use tempfile::TempDir;

#[tokio::test(start_paused = true)]
async fn the_memory_engine_keeps_the_contract() {
    contract::check_all(Traits::ALL, || Arc::new(Memory::new())).await;
}

async fn check_embedded(options: Options) {
    let dir = TempDir::new().unwrap();
    let n_opened = std::sync::atomic::AtomicUsize::new(0);
    let open = || -> Arc<dyn Store> {
        let n = n_opened.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        Embedded::open(&dir.path().join(n.to_string()), options.clone()).unwrap()
    };
    contract::check_all(Traits::ALL, open).await;
}

#[tokio::test]
async fn the_embedded_engine_keeps_the_contract() {
    check_embedded(Options::default()).await;
}

#[tokio::test]
async fn the_embedded_engine_keeps_the_contract_when_history_is_read_from_disk() {
    check_embedded(Options { ring_commits: 1, ..Options::default() }).await;
}

#[tokio::test]
async fn the_embedded_engine_keeps_the_contract_when_values_are_read_from_disk() {
    check_embedded(Options { value_bytes: 0, ..Options::default() }).await;
}

#[tokio::test]
async fn the_embedded_engine_keeps_the_contract_when_all_is_read_from_disk() {
    check_embedded(Options { value_bytes: 0, ring_commits: 1, ..Options::default() }).await;
}
