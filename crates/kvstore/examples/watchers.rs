//! Measures watches in memory: bytes for each idle one, what a write costs when many watch other
//! keys, the same key, or nothing, and how many events a second are delivered.
//!
//! `cargo run --release -p kvstore --example watchers`

#![expect(clippy::print_stdout, reason = "a program for people")]

use std::sync::Arc;

use kvstore::memory::Memory;
use kvstore::{KeyRange, Op, Store, Txn, Watch, WatchRequest};
use tokio::task::JoinSet;
use tokio::time::Instant;

const WRITES: u32 = 2_000;

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let one = KeyRange::prefix(b"/registry/configmaps/");
    measure("warming up", 0, |_| one.clone()).await;
    measure("nobody watches", 0, |_| one.clone()).await;
    // Each case has more than the ones before it: what those gave back does not hide what it takes.
    measure("1,000 watch what is written, unread", 1_000, |_| KeyRange::prefix(b"/written/")).await;
    measure("30,000 watch one other prefix", 30_000, |_| one.clone()).await;
    measure("100,000 watch 100,000 other prefixes", 100_000, |n| {
        KeyRange::prefix(format!("/registry/pods/namespace-{n}/").as_bytes())
    })
    .await;
    measure_delivery(1_000, WRITES).await;
}

/// How many events a second come to readers that wait for them.
async fn measure_delivery(n_readers: usize, n_writes: u32) {
    let store: Arc<dyn Store> = Arc::new(Memory::new());
    let mut readers = JoinSet::new();
    for _ in 0..n_readers {
        let range = KeyRange::prefix(b"/written/");
        let watch = store.watch(WatchRequest::new(range, None)).await;
        let mut watch = watch.expect("the present can be watched");
        readers.spawn(async move {
            let mut n_events = 0;
            while n_events < n_writes as usize {
                n_events += watch.next().await.expect("nothing is compacted").events.len();
            }
            n_events
        });
    }
    let started = Instant::now();
    for n in 0..n_writes {
        let txn = Txn::of(vec![Op::put("/written/key", n.to_string())]);
        store.txn(txn).await.expect("memory has room");
        // Everybody reads each event as it comes: nothing is saved by reading many at once.
        tokio::task::yield_now().await;
    }
    let n_events: usize = readers.join_all().await.into_iter().sum();
    let rate = n_events as u128 * 1_000_000 / started.elapsed().as_micros().max(1);
    println!("{n_readers} readers of {n_writes} writes: {rate} events a second");
}

async fn measure(what: &str, n_watches: usize, range: impl Fn(usize) -> KeyRange) {
    let store: Arc<dyn Store> = Arc::new(Memory::new());
    let mut watches: Vec<Box<dyn Watch>> = Vec::with_capacity(n_watches);
    let before = resident();
    for n in 0..n_watches {
        let watch = store.watch(WatchRequest::new(range(n), None)).await;
        watches.push(watch.expect("the present can be watched"));
    }
    let each = resident().saturating_sub(before) / n_watches.max(1);
    let started = Instant::now();
    for n in 0..WRITES {
        let txn = Txn::of(vec![Op::put("/written/key", n.to_string())]);
        store.txn(txn).await.expect("memory has room");
    }
    let write = started.elapsed() / WRITES;
    println!("{what}: {each} bytes for each watch, {write:?} for each write");
}

fn resident() -> usize {
    let status = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = status.split(' ').nth(1).and_then(|it| it.parse().ok());
    pages.unwrap_or(0usize) * 4096
}
