//! One allowance per key, of so many at once and so many a second. Those that were not asked for
//! longest are forgotten when there are too many, and begin anew.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use jiff::Timestamp;

use super::settings::{Limit, LimitType};

const KEYS_DEFAULT: usize = 4_096;

pub(super) struct Buckets {
    per_second: f64,
    burst: f64,
    keys_max: usize,
    held: Mutex<Held>,
}

#[derive(Default)]
struct Held {
    by_key: BTreeMap<String, Bucket>,
    /// The keys by when they were asked for: the turn is the bucket's.
    by_turn: BTreeMap<u64, String>,
    turn: u64,
}

struct Bucket {
    left: f64,
    since: Timestamp,
    turn: u64,
}

impl Buckets {
    pub(super) fn new(limit: &Limit) -> Self {
        let keys_max = match (limit.type_, limit.cache_size) {
            (LimitType::Server, _) => 1,
            (_, 0) => KEYS_DEFAULT,
            (_, size) => size as usize,
        };
        let (per_second, burst) = (f64::from(limit.qps), f64::from(limit.burst));
        Self { per_second, burst, keys_max, held: Mutex::default() }
    }

    /// Takes one of the key's allowance, if there is one.
    pub(super) fn take(&self, key: &str, now: Timestamp) -> bool {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        held.turn += 1;
        let turn = held.turn;
        let full = Bucket { left: self.burst, since: now, turn };
        let mut bucket = held.by_key.remove(key).unwrap_or(full);
        held.by_turn.remove(&bucket.turn);
        // A clock that is set back takes nothing away.
        let passed = now.duration_since(bucket.since).as_secs_f64().max(0.0);
        bucket.left = (bucket.left + passed * self.per_second).min(self.burst);
        (bucket.since, bucket.turn) = (now, turn);
        let is_there = bucket.left >= 1.0;
        if is_there {
            bucket.left -= 1.0;
        }
        held.by_turn.insert(turn, key.to_owned());
        held.by_key.insert(key.to_owned(), bucket);
        if held.by_key.len() > self.keys_max
            && let Some((_, oldest)) = held.by_turn.pop_first()
        {
            held.by_key.remove(&oldest);
        }
        is_there
    }
}
