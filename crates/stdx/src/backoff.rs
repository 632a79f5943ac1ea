//! Exponential backoff: doubling delays with a cap. Pure; the caller sleeps.

use std::time::Duration;

#[derive(Clone, Debug)]
pub struct Backoff {
    next: Duration,
    first: Duration,
    max: Duration,
}

impl Backoff {
    pub fn new(first: Duration, max: Duration) -> Self {
        Self { next: first, first, max }
    }

    /// The delay to wait now; the following one is twice as long, up to the cap.
    pub fn step(&mut self) -> Duration {
        let delay = self.next;
        self.next = delay.saturating_mul(2).min(self.max);
        delay
    }

    pub fn reset(&mut self) {
        self.next = self.first;
    }
}

#[cfg(test)]
mod tests {
    use super::Backoff;
    use std::time::Duration;

    #[test]
    fn delays_double_up_to_the_cap_and_start_over_after_reset() {
        let mut backoff = Backoff::new(Duration::from_secs(1), Duration::from_secs(3));
        let delays: Vec<u64> = (0..4).map(|_| backoff.step().as_secs()).collect();
        assert_eq!(delays, [1, 2, 3, 3]);
        backoff.reset();
        assert_eq!(backoff.step(), Duration::from_secs(1));
    }
}
