//! Answers that hold for a while. Bounded: when it is full, what ends first goes.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

const ENTRIES_MAX: usize = 1024;

pub(super) struct Recent<K, V> {
    entries: Mutex<BTreeMap<K, (Instant, V)>>,
}

impl<K: Ord + Clone, V: Clone> Recent<K, V> {
    pub(super) fn new() -> Self {
        Self { entries: Mutex::default() }
    }

    pub(super) fn get(&self, key: &K) -> Option<V> {
        let entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        entries.get(key).filter(|it| it.0 > Instant::now()).map(|it| it.1.clone())
    }

    pub(super) fn put(&self, key: K, value: V, holds: Duration) {
        let now = Instant::now();
        let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        if entries.len() >= ENTRIES_MAX && !entries.contains_key(&key) {
            entries.retain(|_, it| it.0 > now);
        }
        if entries.len() >= ENTRIES_MAX && !entries.contains_key(&key) {
            let first = entries.iter().min_by_key(|it| it.1.0).map(|it| it.0.clone());
            first.map(|it| entries.remove(&it));
        }
        entries.insert(key, (now + holds, value));
    }
}
