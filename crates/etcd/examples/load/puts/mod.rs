//! Clients that each put 1 KB values one after the other, several to a connection, as the clients
//! of one program are.
//!
//! Speaks HTTP/2 by hand, with requests that are rendered beforehand: on a small machine the load
//! and the server share the cores, and what is to be measured is the server.

mod connection;

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use bytes::Bytes;
use etcd::wire::messages::PutRequest;

use self::connection::Connection;
use crate::target::Target;
use crate::{percentile, say};

pub(crate) const VALUE_BYTES: usize = 1024;
/// Keys that are written over and over, as objects of a cluster are.
const KEYS: usize = 10_000;
const CLIENTS_PER_CONNECTION: usize = 8;

pub(crate) fn put(key: usize, value: &Bytes) -> PutRequest {
    let key = Bytes::from(format!("/registry/load/key-{key:08}"));
    PutRequest { key, value: value.clone(), ..PutRequest::default() }
}

pub(crate) async fn run(target: &Target, n_clients: usize, seconds: u64) -> Result<()> {
    let warm_up = Instant::now() + Duration::from_millis(500);
    Connection::open(target.port, 0, 1).await?.put_until(warm_up).await?;
    let mut connections = Vec::new();
    for first in (0..n_clients).step_by(CLIENTS_PER_CONNECTION) {
        let n_clients = CLIENTS_PER_CONNECTION.min(n_clients - first);
        connections.push(Connection::open(target.port, first, n_clients).await?);
    }
    let (cpu, started) = (target.cpu_seconds()?, Instant::now());
    let own = Target::cpu_seconds_of(std::process::id())?;
    let until = started + Duration::from_secs(seconds);
    let running = connections.into_iter().map(|it| tokio::spawn(it.put_until(until)));
    let running: Vec<_> = running.collect();
    let mut latencies = Vec::new();
    for connection in running {
        latencies.extend(connection.await??);
    }
    let (elapsed, cpu) = (started.elapsed().as_secs_f64(), target.cpu_seconds()? - cpu);
    let own = Target::cpu_seconds_of(std::process::id())? - own;
    ensure!(!latencies.is_empty(), "not one put was answered");
    latencies.sort_by(f64::total_cmp);
    let n_puts = latencies.len() as f64;
    say("puts_per_second", n_puts / elapsed);
    say("latency_p50_ms", percentile(&latencies, 0.5));
    say("latency_p99_ms", percentile(&latencies, 0.99));
    say("cpu_us_per_put", cpu / n_puts * 1e6);
    say("load_cpu_us_per_put", own / n_puts * 1e6);
    Ok(())
}
