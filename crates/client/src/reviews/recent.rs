//! Answers that hold for a while. Bounded: when it is full, what ends first goes.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

const ENTRIES_MAX: usize = 1024;

/// What was answered, by what was asked.
pub(super) struct Recent<K, V> {
    entries: Mutex<BTreeMap<K, (Instant, V)>>,
}

impl<K, V> Default for Recent<K, V> {
    fn default() -> Self {
        Self { entries: Mutex::default() }
    }
}

impl<K: Ord + Clone, V: Clone> Recent<K, V> {
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

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::Recent;

    #[tokio::test(start_paused = true)]
    async fn answers_are_kept_for_their_time_and_not_without_end() {
        let recent = Recent::default();
        recent.put(0, "short", Duration::from_secs(30));
        for key in 1..=2_000 {
            recent.put(key, "long", Duration::from_secs(300));
        }
        assert_eq!(recent.get(&0), None, "what ends first makes room");
        assert_eq!(recent.get(&2_000), Some("long"));
        recent.put(3_000, "never", Duration::ZERO);
        assert_eq!(recent.get(&3_000), None);
        tokio::time::sleep(Duration::from_secs(301)).await;
        assert_eq!(recent.get(&2_000), None);
    }
}
