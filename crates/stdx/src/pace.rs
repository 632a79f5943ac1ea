//! How often anything happens at all: a bucket of tokens, so that many who start at once do not
//! become a load of their own.

use std::time::Duration;

use tokio::time::Instant;

/// Who reserves takes a token; below zero they are those of the future, to be waited for.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    per_second: f64,
    burst: f64,
    /// Tokens, and when there were so many; a full bucket at first.
    at: Option<(f64, Instant)>,
}

impl Pace {
    /// Both are more than zero.
    pub const fn new(per_second: f64, burst: f64) -> Self {
        Self { per_second, burst, at: None }
    }

    /// The same with a bucket of its own, so many times as fast and as large.
    #[must_use]
    pub fn times(self, per_second: f64, burst: f64) -> Self {
        Self::new(self.per_second * per_second, self.burst * burst)
    }

    /// How long to wait for the token.
    pub fn reserve(&mut self, now: Instant) -> Duration {
        let tokens = self.at.map_or(self.burst, |(tokens, since)| {
            let grown = now.saturating_duration_since(since).as_secs_f64() * self.per_second;
            (tokens + grown).min(self.burst)
        });
        let left = tokens - 1.0;
        self.at = Some((left, now));
        Duration::try_from_secs_f64((-left / self.per_second).max(0.0)).unwrap_or(Duration::MAX)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::Instant;

    use super::Pace;

    #[test]
    fn after_a_burst_of_100_there_are_10_a_second() {
        let (mut pace, start) = (Pace::new(10.0, 100.0), Instant::now());
        let waits: Vec<u128> = (0..103).map(|_| pace.reserve(start).as_millis()).collect();
        assert_eq!(waits[..100], [0; 100]);
        assert_eq!(waits[100..], [100, 200, 300]);
        let later = start + Duration::from_secs(1);
        assert_eq!(pace.reserve(later).as_millis(), 0);
        let much_later = start + Duration::from_secs(1_000);
        let waits: Vec<u128> = (0..101).map(|_| pace.reserve(much_later).as_millis()).collect();
        assert_eq!((waits[99], waits[100]), (0, 100));
        let mut faster = pace.times(2.0, 0.5);
        let waits: Vec<u128> = (0..51).map(|_| faster.reserve(much_later).as_millis()).collect();
        assert_eq!((waits[49], waits[50]), (0, 50));
    }
}
