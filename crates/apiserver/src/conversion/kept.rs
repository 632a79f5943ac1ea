//! What was converted a moment ago, for whoever asks for the same next: another reader, or another
//! stage of the same write. Found by what the object was, byte for byte, so that it is never the
//! answer to another question; forgotten soon, because who converts may be exchanged without anybody
//! telling us.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use sha2::{Digest as _, Sha256};
use tokio::time::Instant;

/// Of all definitions together.
const BYTES_MAX: usize = 16 << 20;
/// No longer is anything kept.
const FRESH_FOR: Duration = Duration::from_secs(10);
/// What an entry takes beside its bytes.
const OVERHEAD: usize = 128;

pub(super) type Key = [u8; 32];

pub(super) fn key(converter: u64, object: &[u8], api_version: &str) -> Key {
    let mut hash = Sha256::new_with_prefix(converter.to_le_bytes());
    hash.update(api_version);
    hash.update([0]);
    hash.update(object);
    hash.finalize().into()
}

#[derive(Default)]
pub(super) struct Kept(Mutex<Entries>);

#[derive(Default)]
struct Entries {
    by_key: HashMap<Key, Bytes>,
    /// The oldest first; each is in the map, once.
    order: VecDeque<(Instant, Key)>,
    n_bytes: usize,
}

impl Kept {
    fn entries(&self) -> MutexGuard<'_, Entries> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn get(&self, key: &Key) -> Option<Bytes> {
        let mut entries = self.entries();
        entries.forget(Instant::now(), 0);
        entries.by_key.get(key).cloned()
    }

    pub(super) fn put(&self, key: Key, converted: Bytes) {
        let size = converted.len() + OVERHEAD;
        let mut entries = self.entries();
        let now = Instant::now();
        entries.forget(now, size);
        if size > BYTES_MAX || entries.by_key.contains_key(&key) {
            return;
        }
        entries.n_bytes += size;
        entries.order.push_back((now, key));
        entries.by_key.insert(key, converted);
    }
}

impl Entries {
    /// What is too old, and as much more as it takes to have room.
    fn forget(&mut self, now: Instant, room: usize) {
        while let Some((at, key)) = self.order.front().copied() {
            if now - at < FRESH_FOR && self.n_bytes + room <= BYTES_MAX {
                return;
            }
            self.order.pop_front();
            let gone = self.by_key.remove(&key).map_or(0, |it| it.len() + OVERHEAD);
            self.n_bytes -= gone;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn what_is_kept_is_bounded_in_time_and_size() {
        let kept = Kept::default();
        let one = key(1, b"{}", "v1");
        assert!(
            [key(2, b"{}", "v1"), key(1, b"{}", "v2"), key(1, b"[]", "v1")]
                .iter()
                .all(|it| *it != one)
        );
        kept.put(one, Bytes::from_static(b"a"));
        kept.put(one, Bytes::from_static(b"b"));
        assert_eq!(kept.get(&one).as_deref(), Some(&b"a"[..]));
        tokio::time::advance(FRESH_FOR).await;
        assert_eq!((kept.get(&one), kept.entries().n_bytes), (None, 0));
        let large = Bytes::from(vec![b' '; 1 << 20]);
        for index in 0..100 {
            kept.put(key(index, b"", ""), large.clone());
            assert!(kept.entries().n_bytes <= BYTES_MAX);
        }
        assert!(kept.get(&key(0, b"", "")).is_none() && kept.get(&key(99, b"", "")).is_some());
        kept.put(key(0, b"", "x"), Bytes::from(vec![b' '; BYTES_MAX]));
        assert!(kept.get(&key(0, b"", "x")).is_none(), "what never fits is not kept");
    }
}
