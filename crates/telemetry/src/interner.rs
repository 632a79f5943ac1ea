//! What belongs to a set of label values, found without a lock and without making anything.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::{Arc, Mutex, PoisonError};

use arc_swap::ArcSwap;

/// Label values may come from clients, in some way: more sets than this share one, whose values all
/// are [`OVERFLOW`].
const SETS_MAX: usize = 10_000;
pub(crate) const OVERFLOW: &str = "other";

/// Adding copies one of so many parts.
const PARTS: usize = 8;

/// A map from label values to `V`. Readers share one version of it; whoever adds something makes
/// the next.
pub struct Interner<V, const N: usize> {
    /// By the last digits of the hash.
    parts: [ArcSwap<Entries<V, N>>; PARTS],
    /// Held by whoever adds: how many there are.
    length: Mutex<usize>,
}

/// By hash. Sets with the same hash are told apart by their values.
type Entries<V, const N: usize> = HashMap<u64, Vec<Arc<Entry<V, N>>>, BuildHasherDefault<Hashed>>;

pub(crate) struct Entry<V, const N: usize> {
    pub(crate) labels: [Box<str>; N],
    pub(crate) value: Arc<V>,
}

/// Keys are hashes already.
#[derive(Default)]
struct Hashed(u64);

impl Hasher for Hashed {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, _bytes: &[u8]) {}

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }
}

impl<V, const N: usize> Default for Interner<V, N> {
    fn default() -> Self {
        Self { parts: Default::default(), length: Mutex::default() }
    }
}

impl<V, const N: usize> Interner<V, N> {
    fn part(&self, hash: u64) -> &ArcSwap<Entries<V, N>> {
        &self.parts[hash as usize % PARTS]
    }

    /// What belongs to the values; made if they are seen for the first time.
    pub fn get(&self, labels: [&str; N], make: impl FnOnce([&str; N]) -> V) -> Arc<V> {
        self.find(labels).unwrap_or_else(|| self.add(hash_of(&labels), labels, make))
    }

    /// What belongs to the values, if they have been seen.
    pub fn find(&self, labels: [&str; N]) -> Option<Arc<V>> {
        let hash = hash_of(&labels);
        find(&self.part(hash).load(), hash, &labels)
    }

    fn add(&self, hash: u64, labels: [&str; N], make: impl FnOnce([&str; N]) -> V) -> Arc<V> {
        let mut length = self.length.lock().unwrap_or_else(PoisonError::into_inner);
        let (hash, labels) = if *length < SETS_MAX {
            (hash, labels)
        } else {
            (hash_of(&[OVERFLOW; N]), [OVERFLOW; N])
        };
        let present = self.part(hash).load();
        if let Some(value) = find(&present, hash, &labels) {
            return value;
        }
        let value = Arc::new(make(labels));
        let entry = Entry { labels: labels.map(Box::from), value: value.clone() };
        let mut next = Entries::clone(&present);
        next.entry(hash).or_default().push(Arc::new(entry));
        self.part(hash).store(Arc::new(next));
        *length += 1;
        value
    }

    /// Forgets all of them: those who hold one go on adding to what nobody reads.
    pub(crate) fn clear(&self) {
        let mut length = self.length.lock().unwrap_or_else(PoisonError::into_inner);
        self.parts.iter().for_each(|it| it.store(Arc::default()));
        *length = 0;
    }

    pub(crate) fn entries(&self) -> Vec<Arc<Entry<V, N>>> {
        let entries_of = |part: &ArcSwap<Entries<V, N>>| {
            part.load().values().flatten().cloned().collect::<Vec<_>>()
        };
        self.parts.iter().flat_map(entries_of).collect()
    }
}

/// Eight bytes at a time: this is most of what finding a series costs, and std's hasher takes five
/// times as long. Who makes values with equal hashes gains nothing: they are compared, and there is
/// a bound on how many there are.
fn hash_of<const N: usize>(labels: &[&str; N]) -> u64 {
    const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;
    let mix = |hash: u64, word: u64| (hash.rotate_left(23) ^ word).wrapping_mul(SPREAD);
    let mut hash = 0;
    for label in labels {
        let (words, rest) = label.as_bytes().as_chunks::<8>();
        for word in words {
            hash = mix(hash, u64::from_le_bytes(*word));
        }
        let last = rest.iter().fold(0, |word, byte| word << 8 | u64::from(*byte));
        // The length tells `["a", "b"]` from `["ab", ""]`.
        hash = mix(hash, last ^ (label.len() as u64) << 56);
    }
    hash ^ hash >> 32
}

fn find<V, const N: usize>(
    entries: &Entries<V, N>,
    hash: u64,
    labels: &[&str; N],
) -> Option<Arc<V>> {
    let entries = entries.get(&hash)?;
    let is_it = |it: &&Arc<Entry<V, N>>| it.labels.iter().zip(labels).all(|(a, b)| **a == **b);
    entries.iter().find(is_it).map(|it| it.value.clone())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::{Interner, OVERFLOW, SETS_MAX};

    #[test]
    fn the_same_values_are_the_same_thing() {
        let interner: Interner<String, 2> = Interner::default();
        let make = |labels: [&str; 2]| labels.join("/");
        let one = interner.get(["a", "b"], make);
        assert!(Arc::ptr_eq(&one, &interner.get(["a", "b"], |_| unreachable!())));
        assert_eq!(*interner.get(["ab", ""], make), "ab/");
        assert_eq!(interner.entries().len(), 2);
    }

    #[test]
    fn beyond_the_bound_all_share_one() {
        let interner: Interner<String, 1> = Interner::default();
        let make = |labels: [&str; 1]| labels[0].to_owned();
        for number in 0..SETS_MAX {
            interner.get([&number.to_string()], make);
        }
        assert_eq!(*interner.get(["one too many"], make), OVERFLOW);
        assert_eq!(*interner.get(["two too many"], make), OVERFLOW);
        assert_eq!(*interner.get(["7"], make), "7");
        assert_eq!(interner.entries().len(), SETS_MAX + 1);
    }
}
