//! Verifying what lies on disk, slowly: one segment, then a pause, so that the disk is used at a bounded rate.

use std::time::Duration;

use tokio::time::Instant;

use crate::embedded::core::Core;

pub(super) struct Scrub {
    every: Duration,
    bytes_per_second: u64,
    /// When the next segment is looked at.
    next_at: Instant,
    /// The segments up to this one were looked at in this round.
    done: u32,
    /// What was found in this round.
    damage: Vec<String>,
}

impl Scrub {
    /// Opening has just verified everything.
    pub(super) fn new(every: Duration, bytes_per_second: u64) -> Self {
        let next_at = far(Instant::now(), every);
        Self { every, bytes_per_second, next_at, done: 0, damage: Vec::new() }
    }

    pub(super) fn idle_for(&self) -> Duration {
        self.next_at.saturating_duration_since(Instant::now())
    }

    /// Verifies one segment if its time has come.
    pub(super) fn step(&mut self, core: &Core) {
        if Instant::now() < self.next_at {
            return;
        }
        let segments = core.log.segments();
        let next = segments.iter().find(|it| it.is_sealed && it.first > self.done);
        let Some(segment) = next else {
            self.finish(core);
            return;
        };
        self.done = segment.last;
        if let Err(error) = core.log.verify(segment.id) {
            self.damage.push(error.to_string());
            let damage =
                Some(format!("the store's history is damaged: {}", self.damage.join(", ")));
            if core.set_damage(damage.clone()) {
                tracing::error!(
                    damage = damage.as_deref(),
                    "a scrub found damage; it is not served"
                );
            }
        }
        let pause = u64::from(segment.bytes).saturating_mul(1000) / self.bytes_per_second.max(1);
        self.next_at = Instant::now() + Duration::from_millis(pause);
    }

    /// Damage that is gone, because its segment was rewritten or forgotten, is no condition any more.
    fn finish(&mut self, core: &Core) {
        if self.damage.is_empty() {
            core.set_damage(None);
        }
        self.damage.clear();
        self.done = 0;
        self.next_at = far(Instant::now(), self.every);
    }
}

fn far(now: Instant, duration: Duration) -> Instant {
    now.checked_add(duration).unwrap_or(now + Duration::from_secs(365 * 24 * 3600))
}
