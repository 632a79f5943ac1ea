//! Ranges over many keys, and what a key takes in memory.

use std::time::Instant;

use anyhow::{Result, ensure};
use bytes::Bytes;
use etcd::wire::messages::RangeRequest;
use etcd::wire::methods;
use futures_util::{StreamExt as _, TryStreamExt as _};

use crate::puts::{VALUE_BYTES, put};
use crate::target::Target;
use crate::{percentile, say};

async fn fill(target: &Target, n_keys: usize) -> Result<()> {
    let channel = target.connect().await?;
    let value = Bytes::from(vec![b'x'; VALUE_BYTES]);
    let puts = futures_util::stream::iter(0..n_keys).map(|key| {
        let (channel, request) = (channel.clone(), put(key, &value));
        async move { channel.unary(methods::PUT, &request).await.map(drop) }
    });
    puts.buffer_unordered(200).try_collect::<()>().await?;
    Ok(())
}

pub(crate) async fn range(target: &Target, n_keys: u64) -> Result<()> {
    fill(target, usize::try_from(n_keys)?).await?;
    let channel = target.connect().await?;
    let request = RangeRequest {
        key: Bytes::from_static(b"/registry/load/"),
        range_end: Bytes::from_static(b"/registry/load0"),
        ..RangeRequest::default()
    };
    let cpu = target.cpu_seconds()?;
    let mut times = Vec::new();
    for _ in 0..20 {
        let started = Instant::now();
        let response = channel.unary(methods::RANGE, &request).await?;
        times.push(started.elapsed().as_secs_f64() * 1000.0);
        ensure!(response.kvs.len() as u64 >= n_keys, "the range has every key");
    }
    let cpu = target.cpu_seconds()? - cpu;
    times.sort_by(f64::total_cmp);
    say("range_p50_ms", percentile(&times, 0.5));
    say("range_cpu_ms", cpu / 20.0 * 1000.0);
    Ok(())
}

pub(crate) async fn memory(target: &Target, n_keys: u64) -> Result<()> {
    let before = target.resident_bytes()?;
    fill(target, usize::try_from(n_keys)?).await?;
    say("bytes_per_key", (target.resident_bytes()? - before) / n_keys as f64);
    Ok(())
}
