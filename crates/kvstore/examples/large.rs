//! Whether a large store is as quick as an empty one: measures puts of 1 KB by 8 writers into an empty store, fills it with
//! objects that are overwritten again and again, and measures again beside what is there then.
//!
//! `cargo run --release -p kvstore --example large -- DIRECTORY GIB`

#![expect(clippy::print_stdout, reason = "a program for people")]

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use kvstore::embedded::{Embedded, HistoryBudget, Options};
use kvstore::{Op, Store as _, Txn};
use tokio::time::Instant;

const OBJECT_BYTES: usize = 32 << 10;
const WRITERS: usize = 8;

#[tokio::main]
async fn main() {
    let mut args = std::env::args_os().skip(1);
    let parent = args.next().map_or_else(std::env::temp_dir, PathBuf::from);
    let gib: u64 = args.next().and_then(|it| it.to_str()?.parse().ok()).unwrap_or(2);
    let dir = parent.join(format!("kvstore-large-{}", std::process::id()));
    std::fs::create_dir_all(&dir).expect("the directory is usable");
    let history = HistoryBudget { bytes: u64::MAX, ..HistoryBudget::default() };
    let options = Options { history, ..Options::default() };
    let store = Embedded::open(&dir, options.clone()).expect("the directory is usable");
    measure("empty", &store).await;
    fill(&store, gib << 30).await;
    let status = store.status().await.expect("the store is open");
    let name = format!("{} MiB, {} keys", status.bytes >> 20, status.n_keys);
    for _ in 0..3 {
        measure(&name, &store).await;
    }
    store.close().await;
    drop(store);
    let started = Instant::now();
    let store = Embedded::open(&dir, options).expect("the store opens again");
    println!("open: {:?}", started.elapsed());
    store.compact(store.revision()).await.expect("it can be compacted");
    measure("while it is cleaned", &store).await;
    drop(store);
    if let Err(error) = std::fs::remove_dir_all(&dir) {
        println!("{} is left behind: {error}", dir.display());
    }
}

/// Every fourth byte is of an object that is current.
async fn fill(store: &Arc<Embedded>, bytes: u64) {
    let n = bytes / OBJECT_BYTES as u64;
    let mut set = tokio::task::JoinSet::new();
    for at in 0..n {
        let store = store.clone();
        set.spawn(async move {
            let op = Op::put(format!("fill/{:08}", at % (n / 4)), vec![b'x'; OBJECT_BYTES]);
            store.txn(Txn::of(vec![op])).await.expect("the disk has room");
        });
        if set.len() >= 256 {
            set.join_next().await;
        }
    }
    set.join_all().await;
}

async fn measure(name: &str, store: &Arc<Embedded>) {
    let mut set = tokio::task::JoinSet::new();
    let deadline = Instant::now() + Duration::from_secs(5);
    for writer in 0..WRITERS {
        let store = store.clone();
        set.spawn(async move {
            let mut took = Vec::new();
            while Instant::now() < deadline {
                let op = Op::put(format!("put/{writer}/{}", took.len() % 1000), vec![b'y'; 1024]);
                let begun = Instant::now();
                store.txn(Txn::of(vec![op])).await.expect("the disk has room");
                took.push(begun.elapsed());
            }
            took
        });
    }
    let mut took: Vec<Duration> = set.join_all().await.into_iter().flatten().collect();
    took.sort();
    let at = |hundredths: usize| took[(took.len() - 1) * hundredths / 100];
    let (p50, p99) = (at(50), at(99));
    println!("{name}: {} puts in 5 s, p50 {p50:?}, p99 {p99:?}", took.len());
}
