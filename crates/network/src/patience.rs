//! How often something is mended: at once, then less and less often while it keeps breaking. Pure.

use std::time::Duration;

use stdx::Backoff;
use tokio::time::Instant;

const DELAY_FIRST: Duration = Duration::from_millis(200);
const DELAY_MAX: Duration = Duration::from_secs(30);
/// What has held for so long is whole again.
const FORGIVEN: Duration = Duration::from_secs(60);

#[derive(Clone, Debug)]
pub(crate) struct Patience {
    backoff: Backoff,
    /// When it was mended last, and from when on it may be again.
    last: Option<(Instant, Instant)>,
}

impl Default for Patience {
    fn default() -> Self {
        Self { backoff: Backoff::new(DELAY_FIRST, DELAY_MAX), last: None }
    }
}

impl Patience {
    /// `None`: now.
    pub(crate) fn due(&self, now: Instant) -> Option<Instant> {
        self.last.map(|(_, due)| due).filter(|due| *due > now)
    }

    /// It is being mended now, with or without success.
    pub(crate) fn try_now(&mut self, now: Instant) {
        if self.last.is_some_and(|(last, _)| now.duration_since(last) >= FORGIVEN) {
            *self = Self::default();
        }
        self.last = Some((now, now + self.backoff.step()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_keeps_breaking_is_mended_ever_more_seldom() {
        let mut now = Instant::now();
        let mut patience = Patience::default();
        assert_eq!(patience.due(now), None);
        let mut delays = Vec::new();
        for _ in 0..10 {
            patience.try_now(now);
            let due = patience.due(now).unwrap();
            delays.push(due.duration_since(now).as_millis());
            now = due;
            assert_eq!(patience.due(now), None);
        }
        assert_eq!(delays[..4], [200, 400, 800, 1600]);
        assert_eq!(delays[8..], [30_000, 30_000]);
    }

    #[test]
    fn what_held_for_a_minute_is_mended_at_once_again() {
        let mut now = Instant::now();
        let mut patience = Patience::default();
        for _ in 0..3 {
            patience.try_now(now);
            now += Duration::from_secs(2);
        }
        now += FORGIVEN;
        patience.try_now(now);
        assert_eq!(patience.due(now), Some(now + DELAY_FIRST));
    }
}
