//! Clients that each put 1 KB values one after the other.

use std::time::{Duration, Instant};

use anyhow::Result;
use bytes::Bytes;
use etcd::wire::channel::Channel;
use etcd::wire::messages::PutRequest;
use etcd::wire::methods;

use crate::target::Target;
use crate::{percentile, say};

pub(crate) const VALUE_BYTES: usize = 1024;
/// Keys that are written over and over, as objects of a cluster are.
const KEYS: usize = 10_000;

pub(crate) fn put(key: usize, value: &Bytes) -> PutRequest {
    let key = Bytes::from(format!("/registry/load/key-{key:08}"));
    PutRequest { key, value: value.clone(), ..PutRequest::default() }
}

async fn client(channel: Channel, number: usize, until: Instant) -> Result<Vec<f64>> {
    let value = Bytes::from(vec![b'x'; VALUE_BYTES]);
    let mut latencies = Vec::new();
    let mut key = number * 7919;
    while Instant::now() < until {
        let request = put(key % KEYS, &value);
        key += 1;
        let started = Instant::now();
        channel.unary(methods::PUT, &request).await?;
        latencies.push(started.elapsed().as_secs_f64() * 1000.0);
    }
    Ok(latencies)
}

pub(crate) async fn run(target: &Target, n_clients: usize, seconds: u64) -> Result<()> {
    let channels = target.clients(n_clients).await?;
    let warm_up = Instant::now() + Duration::from_millis(500);
    client(channels[0].clone(), 0, warm_up).await?;
    let (cpu, started) = (target.cpu_seconds()?, Instant::now());
    let until = started + Duration::from_secs(seconds);
    let clients = channels.into_iter().enumerate();
    let clients = clients.map(|(number, it)| tokio::spawn(client(it, number, until)));
    let clients: Vec<_> = clients.collect();
    let mut latencies = Vec::new();
    for client in clients {
        latencies.extend(client.await??);
    }
    let (elapsed, cpu) = (started.elapsed().as_secs_f64(), target.cpu_seconds()? - cpu);
    latencies.sort_by(f64::total_cmp);
    let n_puts = latencies.len() as f64;
    say("puts_per_second", n_puts / elapsed);
    say("latency_p50_ms", percentile(&latencies, 0.5));
    say("latency_p99_ms", percentile(&latencies, 0.99));
    say("cpu_us_per_put", cpu / n_puts * 1e6);
    Ok(())
}
