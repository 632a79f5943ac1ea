//! Watches: what an idle one takes, and how quickly events reach many.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use bytes::Bytes;
use etcd::wire::channel::{Channel, Requests, Responses};
use etcd::wire::messages::{WatchCreateRequest, WatchRequest, WatchRequestUnion, WatchResponse};
use etcd::wire::methods;
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::puts::{VALUE_BYTES, put};
use crate::target::Target;
use crate::{percentile, say};

/// How long after the last write deliveries are waited for.
const CATCH_UP: Duration = Duration::from_secs(120);
/// Who has delivered nothing for this long delivers nothing any more.
const SILENCE: Duration = Duration::from_secs(5);

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

/// Watches that share one stream, as those of one client do; and watches with a stream each, a
/// hundred on a connection.
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

/// Watchers of one prefix, each with a stream of its own, a hundred on a connection; and one client
/// that writes to that prefix at a pace, so that each write is delivered to all. Measured are the
/// server's CPU for each delivery, and the time from the start of a write to each delivery of it.
///
/// A server that cannot keep the pace is given a while to catch up, and then measured by what it
/// did: `share_written` of the writes were acknowledged (one that is not may come all the same),
/// and `share_delivered` of all events came to all watchers. Latencies are of those alone. Streams
/// that broke, for they say that somebody had no time to answer a ping, are counted.
///
/// The load spends about as much on each delivery as the server, and both have the same cores.
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
    let (stop, stopped) = watch::channel(false);
    let n_delivered = Arc::new(AtomicU64::new(0));
    let mut watchers = JoinSet::new();
    for number in 0..n_watchers {
        let stream = open(&channels[number / 100], "/registry/load/").await?;
        let reader = Reader { n_events, started, n_delivered: n_delivered.clone() };
        watchers.spawn(reader.read(stream, stopped.clone()));
    }
    let (cpu, first_write) = (target.cpu_seconds()?, Instant::now());
    let n_written = write(target, n_events, per_second, started).await?;
    let n_expected = n_events * n_watchers as u64;
    let last_delivery = await_silence(&n_delivered, n_expected).await;
    let cpu = target.cpu_seconds()? - cpu;
    stop.send_replace(true);
    let (mut latencies, mut n_broken) = (Vec::new(), 0);
    for seen in watchers.join_all().await {
        n_broken += usize::from(seen.is_broken);
        latencies.extend(seen.latencies);
    }
    latencies.sort_by(f32::total_cmp);
    let n_delivered = latencies.len() as f64;
    let elapsed = (last_delivery - first_write).as_secs_f64();
    say("share_written", n_written as f64 / n_events as f64);
    say("share_delivered", n_delivered / n_expected as f64);
    say("streams_broken", n_broken as f64);
    say("events_delivered_per_second", n_delivered / elapsed);
    say("event_latency_p50_ms", f64::from(percentile(&latencies, 0.5)));
    say("event_latency_p99_ms", f64::from(percentile(&latencies, 0.99)));
    say("cpu_us_per_delivery", cpu / n_delivered * 1e6);
    Ok(())
}

/// Waits until all is delivered, or nothing comes any more, or it takes too long. Returns when the
/// last delivery came.
async fn await_silence(n_delivered: &AtomicU64, n_expected: u64) -> Instant {
    let deadline = Instant::now() + CATCH_UP;
    let mut last = (0, Instant::now());
    while Instant::now() < deadline && last.1.elapsed() < SILENCE {
        let now = n_delivered.load(Ordering::Relaxed);
        if now != last.0 {
            last = (now, Instant::now());
        }
        if now >= n_expected {
            break;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    last.1
}

/// Each value begins with the time of its write. Returns how many were acknowledged.
async fn write(target: &Target, n_events: u64, per_second: u64, started: Instant) -> Result<u64> {
    let channel = target.connect().await?;
    let mut pace = tokio::time::interval(Duration::from_secs(1) / u32::try_from(per_second)?);
    let mut puts = JoinSet::new();
    for number in 0..n_events {
        pace.tick().await;
        let mut value = started.elapsed().as_nanos().to_be_bytes().to_vec();
        value.resize(VALUE_BYTES, b'x');
        let request = put(usize::try_from(number)? % 1000, &Bytes::from(value));
        let channel = channel.clone();
        puts.spawn(async move { channel.unary(methods::PUT, &request).await.is_ok() });
    }
    Ok(puts.join_all().await.into_iter().filter(|it| *it).count() as u64)
}

struct Reader {
    n_events: u64,
    started: Instant,
    /// By all readers.
    n_delivered: Arc<AtomicU64>,
}

struct Seen {
    /// In milliseconds. There are millions of them.
    latencies: Vec<f32>,
    is_broken: bool,
}

impl Reader {
    /// Until all has come or it is to stop.
    async fn read(self, stream: Stream, mut stopped: watch::Receiver<bool>) -> Seen {
        let (_requests, mut responses) = stream;
        let mut latencies = Vec::new();
        while (latencies.len() as u64) < self.n_events {
            let response = tokio::select! {
                biased;
                _ = stopped.wait_for(|it| *it) => break,
                response = responses.next() => response,
            };
            let Ok(Some(response)) = response else {
                return Seen { latencies, is_broken: true };
            };
            self.n_delivered.fetch_add(response.events.len() as u64, Ordering::Relaxed);
            let written =
                response.events.iter().filter_map(|it| it.kv.as_ref()?.value.first_chunk());
            latencies.extend(written.map(|it: &[u8; 16]| {
                let written = u128::from_be_bytes(*it);
                (self.started.elapsed().as_nanos().saturating_sub(written) as f64 / 1e6) as f32
            }));
        }
        Seen { latencies, is_broken: false }
    }
}
