//! How often anything is retried at all: a bucket of tokens, so that many keys that fail at once do
//! not become a load of their own.

use std::time::Duration;

use tokio::time::Instant;

const PER_SECOND: f64 = 10.0;
const BURST: f64 = 100.0;

/// Who reserves takes a token; below zero they are those of the future, to be waited for.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Pace {
    /// Tokens, and when there were so many; a full bucket at first.
    at: Option<(f64, Instant)>,
}

impl Pace {
    /// How long to wait for the token.
    pub(super) fn reserve(&mut self, now: Instant) -> Duration {
        let tokens = self.at.map_or(BURST, |(tokens, since)| {
            let grown = now.saturating_duration_since(since).as_secs_f64() * PER_SECOND;
            (tokens + grown).min(BURST)
        });
        let left = tokens - 1.0;
        self.at = Some((left, now));
        Duration::from_secs_f64((-left / PER_SECOND).max(0.0))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::Instant;

    use super::Pace;

    #[test]
    fn after_a_burst_of_100_there_are_10_a_second() {
        let (mut pace, start) = (Pace::default(), Instant::now());
        let waits: Vec<u128> = (0..103).map(|_| pace.reserve(start).as_millis()).collect();
        assert_eq!(waits[..100], [0; 100]);
        assert_eq!(waits[100..], [100, 200, 300]);
        let later = start + Duration::from_secs(1);
        assert_eq!(pace.reserve(later).as_millis(), 0);
        let much_later = start + Duration::from_secs(1_000);
        let waits: Vec<u128> = (0..101).map(|_| pace.reserve(much_later).as_millis()).collect();
        assert_eq!((waits[99], waits[100]), (0, 100));
    }
}
