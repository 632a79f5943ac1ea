//! Chance as a parameter: one seeded generator, shared by clones.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rand::rngs::StdRng;
use rand::{Rng, RngCore, SeedableRng};

/// The letters of generated name suffixes: no vowels, no look-alikes, as Kubernetes' names have.
const NAME_ALPHABET: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";

/// Clones share one stream, so the order of draws is the order of calls.
#[derive(Clone)]
pub struct Random(Arc<Mutex<StdRng>>);

impl Random {
    pub fn from_os() -> Self {
        Self(Arc::new(Mutex::new(StdRng::from_os_rng())))
    }

    pub fn from_seed(seed: u64) -> Self {
        Self(Arc::new(Mutex::new(StdRng::seed_from_u64(seed))))
    }

    fn with<T>(&self, draw: impl FnOnce(&mut StdRng) -> T) -> T {
        // A panic while drawing leaves the generator usable: there is no invariant to break.
        draw(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub fn next_u64(&self) -> u64 {
        self.with(RngCore::next_u64)
    }

    /// A number in `0..bound`; 0 when `bound` is 0.
    pub fn below(&self, bound: u64) -> u64 {
        if bound == 0 { 0 } else { self.with(|it| it.random_range(0..bound)) }
    }

    /// A number in `0.0..1.0`.
    pub fn fraction(&self) -> f64 {
        self.with(|it| it.random::<f64>())
    }

    pub fn fill(&self, bytes: &mut [u8]) {
        self.with(|it| it.fill_bytes(bytes));
    }

    /// A random (version 4) UUID in its usual text form.
    pub fn uuid(&self) -> String {
        let mut bytes = [0u8; 16];
        self.fill(&mut bytes);
        bytes[6] = (bytes[6] & 0x0f) | 0x40;
        bytes[8] = (bytes[8] & 0x3f) | 0x80;
        let hex: String = bytes.iter().map(|it| format!("{it:02x}")).collect();
        format!("{}-{}-{}-{}-{}", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..])
    }

    /// `length` characters for a generated object name.
    pub fn name_suffix(&self, length: usize) -> String {
        self.with(|it| {
            (0..length)
                .map(|_| char::from(NAME_ALPHABET[it.random_range(0..NAME_ALPHABET.len())]))
                .collect()
        })
    }

    /// `base` stretched by up to `factor` of itself: spreads out what would otherwise happen at
    /// once.
    pub fn jitter(&self, base: Duration, factor: f64) -> Duration {
        base + base.mul_f64(factor * self.fraction())
    }
}

#[cfg(test)]
mod tests {
    use super::Random;

    #[test]
    fn the_same_seed_gives_the_same_stream() {
        let (one, two) = (Random::from_seed(7), Random::from_seed(7));
        assert_eq!(one.uuid(), two.uuid());
        assert_eq!(one.name_suffix(5), two.name_suffix(5));
    }

    #[test]
    fn uuids_are_version_four() {
        let uuid = Random::from_seed(1).uuid();
        assert_eq!(uuid.len(), 36);
        assert_eq!(uuid.as_bytes()[14], b'4');
        assert!(matches!(uuid.as_bytes()[19], b'8' | b'9' | b'a' | b'b'));
    }
}
