//! What concurrent clients do to a store: few keys, so that they meet, and values that nobody else
//! writes, so that what is read tells who wrote it.

use std::time::Duration;

use bytes::Bytes;
use stdx::Random;

use super::history::Client;
use crate::{Compare, Error, KeyRange, Op, RangeRequest, Revision, Txn};

#[derive(Clone, Copy, Debug)]
pub struct Workload {
    pub keys: u64,
    pub operations: u64,
    /// A call that is not answered by then is given up: it may have happened or not.
    pub patience: Duration,
    /// After an error, before the next call.
    pub pause: Duration,
}

impl Default for Workload {
    fn default() -> Self {
        let (patience, pause) = (Duration::from_secs(5), Duration::from_millis(20));
        Self { keys: 4, operations: 100, patience, pause }
    }
}

/// One client's part. Errors are part of the history and end nothing.
pub async fn run(client: &Client, name: &str, random: &Random, workload: Workload) {
    let mut known = Revision(0);
    for n in 0..workload.operations {
        let call = step(client, format!("{name}.{n}"), random, &mut known, workload.keys);
        let result = tokio::time::timeout(workload.patience, call).await;
        if !matches!(result, Ok(Ok(()))) {
            tokio::time::sleep(workload.pause).await;
        }
        // A store that answers at once would have one client finish before the next begins.
        tokio::task::yield_now().await;
    }
}

async fn step(
    client: &Client,
    value: String,
    random: &Random,
    known: &mut Revision,
    n_keys: u64,
) -> Result<(), Error> {
    let key = |n: u64| Bytes::from(format!("key/{}", n % n_keys));
    let n = random.below(n_keys);
    let all = || RangeRequest::latest(KeyRange::prefix(b"key/"));
    let txn = match random.below(20) {
        0..5 => Txn::of(vec![Op::put(key(n), value)]),
        5..7 => Txn::of(vec![Op::put(key(n), value)]).relaxed(),
        7..9 => Txn::of(vec![Op::delete(&key(n))]),
        9 => Txn::of(vec![Op::Delete(KeyRange::prefix(b"key/")), Op::put("other", value)]),
        10..12 => Txn {
            compares: vec![Compare::absent(&key(n))],
            then: vec![Op::put(key(n), value.clone())],
            otherwise: vec![Op::Range(all()), Op::put(key(n + 1), value)],
            ..Txn::default()
        },
        12..15 => Txn {
            compares: vec![Compare::mod_revision(&key(n), *known)],
            then: vec![Op::put(key(n), value.clone()), Op::put(key(n + 1), value)],
            otherwise: vec![Op::Range(RangeRequest::latest(KeyRange::one(&key(n))))],
            ..Txn::default()
        },
        15 => return client.current().await.map(drop),
        16 => {
            let request = all().at(Revision(known.0.max(1)));
            return client.range(request).await.map(drop);
        }
        _ => {
            let response = client.range(all()).await?;
            *known = response.entries.first().map_or(Revision(0), |it| it.mod_revision);
            return Ok(());
        }
    };
    client.txn(txn).await.map(drop)
}
