//! Measures the embedded engine: puts per second for 1, 64 and 500 concurrent writers of 1 KB, and the time
//! to open a store of 150 000 objects of 2 KB, after a clean end and after a crash.
//!
//! `cargo run --release -p kvstore --example bench [directory]`

#![expect(clippy::print_stdout, reason = "a program for people")]

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use kvstore::embedded::{Embedded, Options};
use kvstore::{Op, Store as _, Txn};
use tokio::time::Instant;

const OBJECTS: usize = 150_000;
const OBJECTS_PER_TXN: usize = 500;

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
    Embedded::open(dir, Options::default()).expect("the benchmark's directory is usable")
}

fn put(key: String, bytes: usize) -> Op {
    Op::put(key, vec![b'x'; bytes])
}

async fn measure_puts(dir: &Path, writers: usize) {
    let store = open(dir);
    let started = Instant::now();
    let deadline = started + Duration::from_secs(5);
    let counts = join_all((0..writers).map(|writer| {
        let store = &store;
        async move {
            let mut n = 0u64;
            while Instant::now() < deadline {
                let write = put(format!("/registry/pods/default/{writer}-{}", n % 100), 1024);
                let txn = Txn::of(vec![write]);
                store.txn(txn).await.expect("the disk has room");
                n += 1;
            }
            n
        }
    }))
    .await;
    let puts: u64 = counts.iter().sum();
    let rate = Duration::from_secs(1).as_nanos() * u128::from(puts) / started.elapsed().as_nanos();
    let mean = started.elapsed() * u32::try_from(writers).unwrap_or(u32::MAX)
        / u32::try_from(puts.max(1)).unwrap_or(u32::MAX);
    println!("{writers:>4} writers of 1 KB: {rate:>7} puts/s, {mean:?} each");
}

async fn measure_open(dir: &Path) {
    let store = open(dir);
    for first in (0..OBJECTS).step_by(OBJECTS_PER_TXN) {
        let objects = first..first + OBJECTS_PER_TXN;
        let writes = objects.map(|n| put(format!("/registry/pods/default/{n:08}"), 2048)).collect();
        store.txn(Txn::of(writes)).await.expect("the disk has room");
    }
    // What a crash at this moment would leave: redb has to check the whole file then.
    let crashed = dir.with_file_name("crashed");
    std::fs::create_dir_all(&crashed).expect("the benchmark's directory is usable");
    std::fs::copy(dir.join("store.redb"), crashed.join("store.redb")).expect("the disk has room");
    store.close().await;
    drop(store);
    for (how, dir) in [("a clean end", dir), ("a crash", &crashed)] {
        let started = Instant::now();
        let store = open(dir);
        println!("open {OBJECTS} objects of 2 KB after {how}: {:?}", started.elapsed());
        drop(store);
    }
}
