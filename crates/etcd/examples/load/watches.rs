//! Watches: what an idle one takes, and how quickly events reach many.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use bytes::Bytes;
use etcd::wire::channel::{Channel, Requests, Responses};
use etcd::wire::messages::{WatchCreateRequest, WatchRequest, WatchRequestUnion, WatchResponse};
use etcd::wire::methods;

use crate::puts::put;
use crate::target::Target;
use crate::{percentile, say};

type Stream = (Requests<WatchRequest>, Responses<WatchResponse>);

fn create(key: String) -> WatchRequest {
    let key = Bytes::from(key);
    let range_end = kvstore::KeyRange::prefix(&key).end;
    let request = WatchCreateRequest { key, range_end, ..WatchCreateRequest::default() };
    WatchRequest { request_union: Some(WatchRequestUnion::Create(request)) }
}

async fn open(channel: &Channel, prefix: &str) -> Result<Stream> {
    let opened = channel.open(methods::WATCH, &create(prefix.to_owned())).await?;
    let (requests, pending) = opened;
    let mut responses = pending.answers().await?;
    responses.next().await?.context("a watch is announced")?;
    Ok((requests, responses))
}

/// Watches that share one stream, as those of one client do; and watches with a stream each, a hundred on a connection.
pub(crate) async fn idle(target: &Target, n_watches: usize) -> Result<()> {
    let channel = target.connect().await?;
    let (mut requests, mut responses) = open(&channel, "/idle/first").await?;
    let before = target.resident_bytes()?;
    for number in 0..n_watches {
        requests.send(&create(format!("/idle/one-stream/{number}"))).await?;
        responses.next().await?.context("a watch is announced")?;
    }
    let shared = target.resident_bytes()?;
    say("bytes_per_watch_of_a_stream", (shared - before) / n_watches as f64);
    let mut channels = Vec::new();
    let mut streams = Vec::new();
    for number in 0..n_watches {
        if number % 100 == 0 {
            channels.push(target.connect().await?);
        }
        let channel = channels.last().context("there is a connection")?;
        streams.push(open(channel, &format!("/idle/own-stream/{number}")).await?);
    }
    let alone = target.resident_bytes()?;
    say("bytes_per_watch_with_a_stream", (alone - shared) / n_watches as f64);
    Ok(())
}

/// Writes at a pace to keys that every watcher watches, and measures from the write's start to each delivery.
pub(crate) async fn events(
    target: &Target,
    n_watchers: usize,
    per_second: u64,
    seconds: u64,
) -> Result<()> {
    let mut channels = Vec::new();
    for _ in 0..n_watchers.div_ceil(100) {
        channels.push(target.connect().await?);
    }
    let started = Instant::now();
    let n_events = per_second * seconds;
    let mut watchers = Vec::new();
    for number in 0..n_watchers {
        let stream = open(&channels[number / 100], "/registry/load/").await?;
        watchers.push(tokio::spawn(read(stream, n_events, started)));
    }
    let cpu = target.cpu_seconds()?;
    write(target, n_events, per_second, started).await?;
    let mut latencies = Vec::new();
    for watcher in watchers {
        let read = tokio::time::timeout(Duration::from_secs(120), watcher).await;
        latencies.extend(read.context("every event is delivered")???);
    }
    let elapsed = started.elapsed().as_secs_f64();
    latencies.sort_by(f64::total_cmp);
    let n_delivered = (n_events * n_watchers as u64) as f64;
    say("events_delivered_per_second", n_delivered / elapsed);
    say("event_latency_p50_ms", percentile(&latencies, 0.5));
    say("event_latency_p99_ms", percentile(&latencies, 0.99));
    say("cpu_us_per_delivery", (target.cpu_seconds()? - cpu) / n_delivered * 1e6);
    Ok(())
}

/// Each value begins with the time of its write.
async fn write(target: &Target, n_events: u64, per_second: u64, started: Instant) -> Result<()> {
    let channel = target.connect().await?;
    let mut pace = tokio::time::interval(Duration::from_secs(1) / u32::try_from(per_second)?);
    let mut puts = Vec::new();
    for number in 0..n_events {
        pace.tick().await;
        let mut value = started.elapsed().as_nanos().to_be_bytes().to_vec();
        value.resize(1024, b'x');
        let request = put(usize::try_from(number)? % 1000, &Bytes::from(value));
        let channel = channel.clone();
        puts.push(tokio::spawn(async move { channel.unary(methods::PUT, &request).await }));
    }
    for put in puts {
        put.await??;
    }
    Ok(())
}

async fn read(stream: Stream, n_events: u64, started: Instant) -> Result<Vec<f64>> {
    let (_requests, mut responses) = stream;
    let mut latencies = Vec::new();
    while (latencies.len() as u64) < n_events {
        let response = responses.next().await?.context("the watch goes on")?;
        for event in response.events {
            let value = event.kv.context("an event has a key")?.value;
            let at = value.first_chunk::<16>().context("a time")?;
            let at = u128::from_be_bytes(*at);
            let latency = started.elapsed().as_nanos().saturating_sub(at);
            latencies.push(latency as f64 / 1e6);
        }
    }
    Ok(latencies)
}
