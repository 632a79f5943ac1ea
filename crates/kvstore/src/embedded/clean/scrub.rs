//! Verifying what lies on disk, slowly: one segment, then a pause, so that the disk is used at a
//! bounded rate.

use std::time::Duration;

use stdx::error_chain;
use tokio::time::Instant;

use crate::embedded::core::Core;
use crate::embedded::log::ReadError;

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
        match core.log.verify(segment.id) {
            // Rewritten meanwhile: what was read for that was verified.
            Ok(()) | Err(ReadError::Moved) => {}
            Err(error) => self.tell(core, &error),
        }
        let pause = u64::from(segment.bytes).saturating_mul(1000) / self.bytes_per_second.max(1);
        self.next_at = Instant::now() + Duration::from_millis(pause);
    }

    pub(super) fn tell(&mut self, core: &Core, damage: &(dyn std::error::Error + 'static)) {
        core.tell_damage(damage);
        let damage = error_chain(damage);
        if !self.damage.contains(&damage) {
            self.damage.push(damage);
        }
    }

    fn finish(&mut self, core: &Core) {
        core.set_damage(std::mem::take(&mut self.damage));
        self.done = 0;
        self.next_at = far(Instant::now(), self.every);
    }
}

fn far(now: Instant, duration: Duration) -> Instant {
    now.checked_add(duration).unwrap_or(now + Duration::from_secs(365 * 24 * 3600))
}
