//! Wall time as a parameter. Sleeping goes through `tokio::time`, which tests can pause; the wall
//! clock must then move with it, which is what `PausedClock` does.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};

pub type SharedClock = Arc<dyn Clock>;

pub trait Clock: Send + Sync {
    fn now(&self) -> Timestamp;
}

/// The system's wall clock.
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        Timestamp::now()
    }
}

/// A wall clock that starts at a fixed moment and advances with tokio's time.
pub struct PausedClock {
    started: tokio::time::Instant,
}

impl PausedClock {
    /// 2026-01-01T00:00:00Z, so that simulated histories are the same on every day.
    const EPOCH_SECONDS: i64 = 1_767_225_600;

    /// Must be called inside a tokio runtime.
    pub fn new() -> Self {
        Self { started: tokio::time::Instant::now() }
    }
}

impl Default for PausedClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for PausedClock {
    fn now(&self) -> Timestamp {
        let elapsed =
            SignedDuration::try_from(self.started.elapsed()).unwrap_or(SignedDuration::MAX);
        Timestamp::new(Self::EPOCH_SECONDS, 0)
            .and_then(|it| it.checked_add(elapsed))
            .unwrap_or(Timestamp::MAX)
    }
}
