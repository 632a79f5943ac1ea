//! Whether a large store is as quick as an empty one. Fills a store with objects of 32 KB, all of
//! them current; then puts of 1 KB by 8 writers go to it and to an empty one in turns, so that what
//! else the machine does hits both alike. Also prints what the large one takes in memory, and how
//! long it takes to open.
//!
//! `cargo run --release -p kvstore --example large -- DIRECTORY GIB`

#![expect(clippy::print_stdout, reason = "a program for people")]

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use kvstore::embedded::{Embedded, Options};
use kvstore::{KeyRange, Op, RangeRequest, Store as _, Txn};
use tokio::time::Instant;

const OBJECT_BYTES: usize = 32 << 10;
const WRITERS: usize = 8;
const ROUNDS: usize = 15;
const PUTS: usize = 1_000;

#[tokio::main]
async fn main() {
    let mut args = std::env::args_os().skip(1);
    let parent = args.next().map_or_else(std::env::temp_dir, PathBuf::from);
    let gib: u64 = args.next().and_then(|it| it.to_str()?.parse().ok()).unwrap_or(2);
    let dir = parent.join(format!("kvstore-large-{}", std::process::id()));
    let large = open(&dir.join("large"));
    let before = resident();
    let started = Instant::now();
    let n_keys = (gib << 30) / OBJECT_BYTES as u64;
    fill(&large, n_keys).await;
    let status = large.status().await.expect("the store is open");
    println!("{} MiB, {} keys, written in {:?}", status.bytes >> 20, n_keys, started.elapsed());
    println!("resident memory grew by {} MiB", (resident() - before) >> 20);
    println!("compared with an empty store: {}", compare(&large, &open(&dir.join("empty"))).await);
    get_some(&large, n_keys).await;
    large.close().await;
    drop(large);
    let started = Instant::now();
    let large = open(&dir.join("large"));
    println!("open: {:?}, resident memory {} MiB", started.elapsed(), resident() >> 20);
    let empty = open(&dir.join("another"));
    println!("after opening it again: {}", compare(&large, &empty).await);
    large.compact(large.revision()).await.expect("it can be compacted");
    println!("while it is cleaned: {}", compare(&large, &empty).await);
    drop(large);
    if let Err(error) = std::fs::remove_dir_all(&dir) {
        println!("{} is left behind: {error}", dir.display());
    }
}

fn open(dir: &Path) -> Arc<Embedded> {
    std::fs::create_dir_all(dir).expect("the directory is usable");
    Embedded::open(dir, Options::default()).expect("the directory is usable")
}

async fn fill(store: &Arc<Embedded>, n_keys: u64) {
    let mut set = tokio::task::JoinSet::new();
    for at in 0..n_keys {
        let store = store.clone();
        set.spawn(async move {
            let op = Op::put(format!("fill/{at:08}"), vec![b'x'; OBJECT_BYTES]);
            store.txn(Txn::of(vec![op])).await.expect("the disk has room");
        });
        if set.len() >= 256 {
            set.join_next().await;
        }
    }
    set.join_all().await;
}

/// The median of the p99s of each, in rounds, and how they relate.
async fn compare(large: &Arc<Embedded>, empty: &Arc<Embedded>) -> String {
    let mut p99s = [Vec::new(), Vec::new()];
    for round in 0..ROUNDS {
        // Who is first has no advantage over all rounds.
        for turn in 0..2 {
            let which = (round + turn) % 2;
            p99s[which].push(p99_of_puts([large, empty][which]).await);
        }
    }
    let [large, empty] = p99s.map(|mut it| {
        it.sort();
        it[it.len() / 2]
    });
    let ratio = large.as_secs_f64() / empty.as_secs_f64();
    format!("p99 of a put {large:?} beside {empty:?}, {ratio:.2} times")
}

async fn p99_of_puts(store: &Arc<Embedded>) -> Duration {
    let mut set = tokio::task::JoinSet::new();
    for writer in 0..WRITERS {
        let store = store.clone();
        set.spawn(async move {
            let mut took = Vec::new();
            for n in 0..PUTS / WRITERS {
                let op = Op::put(format!("put/{writer}/{n}"), vec![b'y'; 1024]);
                let begun = Instant::now();
                let txn = Txn::of(vec![op]).without_previous_values();
                store.txn(txn).await.expect("the disk has room");
                took.push(begun.elapsed());
            }
            took
        });
    }
    let mut took: Vec<Duration> = set.join_all().await.into_iter().flatten().collect();
    took.sort();
    took[took.len() * 99 / 100]
}

/// Single keys all over the store: most are not in memory.
async fn get_some(store: &Arc<Embedded>, n_keys: u64) {
    let mut took = Vec::new();
    for n in 0..10_000 {
        let key = format!("fill/{:08}", n * 7_919 % n_keys);
        let begun = Instant::now();
        let request = RangeRequest::latest(KeyRange::one(key.as_bytes()));
        let response = store.range(request).await.expect("the disk can be read");
        took.push(begun.elapsed());
        assert_eq!(response.entries.len(), 1);
    }
    took.sort();
    let (p50, p99) = (took[took.len() / 2], took[took.len() * 99 / 100]);
    println!("get of one object: p50 {p50:?}, p99 {p99:?}");
}

/// Bytes of this process in memory, as Linux tells.
fn resident() -> usize {
    let status = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = status.split(' ').nth(1).and_then(|it| it.parse::<usize>().ok());
    pages.unwrap_or(0) * 4096
}
