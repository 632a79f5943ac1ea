//! What the log costs, without the engine above it: durable batches, and opening. With `torture
//! SEED CRASHES` it is broken instead. `cargo run --release -p kvstore --example log [DIR]`

#![expect(clippy::print_stdout, reason = "it prints what it measured")]
#![expect(clippy::disallowed_methods, reason = "it measures real time")]

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use kvstore::embedded::disk::Directory;
use kvstore::embedded::log::{Kind, Log, Options, torture};

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [word, seed, crashes] = arguments.as_slice()
        && word == "torture"
    {
        let start = Instant::now();
        torture::run(seed.parse()?, crashes.parse()?)?;
        println!("{crashes} crashes survived in {:.1?}", start.elapsed());
        return Ok(());
    }
    let place = arguments.first().map_or_else(|| PathBuf::from("."), PathBuf::from);
    let directory = tempfile::tempdir_in(place)?;
    for (n_batches, n_bodies) in [(2000, 1), (1000, 64), (400, 500)] {
        measure_batches(&directory.path().join(n_bodies.to_string()), n_batches, n_bodies)?;
    }
    measure_open(&directory.path().join("open"))
}

fn open(path: &Path, n_frames: &mut u64) -> Result<Log> {
    let disk = Arc::new(Directory::open(path)?);
    let log = Log::open(disk, &Options::new(1), &mut |_| {
        *n_frames += 1;
        Ok(())
    })?;
    Ok(log)
}

fn append(log: &mut Log, batch: &[(Kind, &[u8])]) -> Result<()> {
    if log.is_empty() || log.is_full(batch.len(), batch.iter().map(|it| it.1.len()).sum()) {
        log.rotate(b"checkpoint")?;
    }
    log.append(batch)?;
    log.sync()?;
    Ok(())
}

fn measure_batches(path: &Path, n_batches: usize, n_bodies: usize) -> Result<()> {
    let mut log = open(path, &mut 0)?;
    let body = [0x5a; 1024];
    let batch = vec![(Kind::Commit, &body[..]); n_bodies];
    let mut times = Vec::new();
    let start = Instant::now();
    for _ in 0..n_batches {
        let start = Instant::now();
        append(&mut log, &batch)?;
        times.push(start.elapsed());
    }
    let elapsed = start.elapsed();
    times.sort();
    println!(
        "batches of {n_bodies} x 1 KB: {:.0} puts/s, p25 {:.3?}, p50 {:.3?}, p99 {:.3?}",
        (n_batches * n_bodies) as f64 / elapsed.as_secs_f64(),
        times[n_batches / 4],
        times[n_batches / 2],
        times[n_batches * 99 / 100],
    );
    Ok(())
}

fn measure_open(path: &Path) -> Result<()> {
    let mut log = open(path, &mut 0)?;
    let body: Vec<u8> = (0..2048_u32).map(|it| (it * 31) as u8).collect();
    let batch = vec![(Kind::Commit, &body[..]); 500];
    for _ in 0..300 {
        append(&mut log, &batch)?;
    }
    drop(log);
    for _ in 0..3 {
        let (start, mut n_frames) = (Instant::now(), 0);
        let log = open(path, &mut n_frames)?;
        let elapsed = start.elapsed();
        println!("open: {n_frames} frames, {} MB: {elapsed:.1?}", log.opened().bytes >> 20);
    }
    Ok(())
}
