//! Measures the embedded engine in process: durable puts of 1 KB for 1, 64 and 500 concurrent
//! writers with their latency, the time to open a store of 150 000 objects of 2 KB after a crash
//! and after a clean end, and the memory that each object takes.
//!
//! `cargo run --release -p kvstore --example bench [directory]`

#![expect(clippy::print_stdout, reason = "a program for people")]

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::join_all;
use kvstore::embedded::{Embedded, Options};
use kvstore::{Op, Store as _, Txn};
use tokio::time::Instant;

const OBJECTS: usize = 150_000;
const OBJECT_BYTES: usize = 2048;

#[tokio::main]
async fn main() {
    let parent = std::env::args_os().nth(1).map_or_else(std::env::temp_dir, PathBuf::from);
    let dir = parent.join(format!("kvstore-bench-{}", std::process::id()));
    for writers in [1, 64, 500] {
        measure_puts(&dir.join(format!("puts-{writers}")), writers).await;
    }
    measure_open(&dir.join("open")).await;
    if let Err(error) = std::fs::remove_dir_all(&dir) {
        println!("{} is left behind: {error}", dir.display());
    }
}

fn open(dir: &Path) -> Arc<Embedded> {
    std::fs::create_dir_all(dir).expect("the benchmark's directory is usable");
    Embedded::open(dir, Options::default()).expect("the benchmark's directory is usable")
}

fn put(key: String, bytes: usize) -> Op {
    Op::put(key, vec![b'x'; bytes])
}

async fn measure_puts(dir: &Path, writers: usize) {
    let store = open(dir);
    let started = Instant::now();
    let deadline = started + Duration::from_secs(5);
    let tasks = (0..writers).map(|writer| {
        let store = store.clone();
        async move {
            let mut took = Vec::new();
            while Instant::now() < deadline {
                let key = format!("/registry/pods/default/{writer}-{}", took.len() % 100);
                let begun = Instant::now();
                let txn = Txn::of(vec![put(key, 1024)]).without_previous_values();
                store.txn(txn).await.expect("the disk has room");
                took.push(begun.elapsed());
            }
            took
        }
    });
    let mut set = tokio::task::JoinSet::new();
    tasks.for_each(|it| drop(set.spawn(it)));
    let mut took: Vec<Duration> = set.join_all().await.into_iter().flatten().collect();
    let elapsed = started.elapsed();
    took.sort();
    let rate = Duration::from_secs(1).as_nanos() * took.len() as u128 / elapsed.as_nanos();
    let at = |hundredths: usize| took[(took.len() - 1) * hundredths / 100];
    let (p50, p99) = (at(50), at(99));
    println!("{writers:>4} writers of 1 KB: {rate:>7} puts/s, p50 {p50:?}, p99 {p99:?}");
}

async fn measure_open(dir: &Path) {
    let before = resident();
    let store = open(dir);
    // One transaction each, as objects are written.
    let objects: Vec<usize> = (0..OBJECTS).collect();
    for chunk in objects.chunks(1000) {
        join_all(chunk.iter().map(|n| {
            let key = Bytes::from(format!("/registry/pods/default/{n:08}"));
            store.txn(Txn::of(vec![Op::put(key, vec![b'x'; OBJECT_BYTES])]))
        }))
        .await;
    }
    // What a kill at this moment would leave.
    let crashed = dir.with_file_name("crashed");
    copy(dir, &crashed);
    store.close().await;
    drop(store);
    for (how, dir) in [("a crash", crashed.as_path()), ("a clean end", dir)] {
        let started = Instant::now();
        let store = open(dir);
        println!("open {OBJECTS} objects of 2 KB after {how}: {:?}", started.elapsed());
        let each = resident().saturating_sub(before) / OBJECTS;
        println!("resident memory grew by {each} bytes per object of {OBJECT_BYTES}");
        drop(store);
    }
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).expect("the disk has room");
    for entry in std::fs::read_dir(from).expect("the store is there") {
        let path = entry.expect("the store is there").path();
        let to = to.join(path.file_name().unwrap_or_default());
        if path.is_dir() {
            copy(&path, &to);
        } else {
            std::fs::copy(&path, &to).expect("the disk has room");
        }
    }
}

/// Bytes of this process in memory, as Linux tells.
fn resident() -> usize {
    let status = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = status.split(' ').nth(1).and_then(|it| it.parse::<usize>().ok());
    pages.unwrap_or(0) * 4096
}
