//! How often the endpoints of one Service are written: the more there are, the dearer a write, so
//! the longer changes are gathered into the next one. A small Service never waits noticeably.
//!
//! Worked example: 500 pods of one Service become ready within 5 s. Written one by one that is 500
//! objects of 500 addresses; at half a second apart it is ten.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use apimachinery::ObjectKey;
use jiff::Timestamp;
use stdx::SharedClock;

use crate::pods;

const PAUSE_PER_ENDPOINT: Duration = Duration::from_millis(1);
const PAUSE_MAX: Duration = Duration::from_millis(500);

pub(crate) struct Pace {
    clock: SharedClock,
    /// By Service: when it was last written, and the pause after that. Dropped when the pause is
    /// found to be over.
    written: Mutex<BTreeMap<ObjectKey, (Timestamp, Duration)>>,
}

impl Pace {
    pub(crate) fn new(clock: SharedClock) -> Self {
        Self { clock, written: Mutex::default() }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<ObjectKey, (Timestamp, Duration)>> {
        self.written.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn wrote(&self, service: &ObjectKey, n_endpoints: usize) {
        let factor = u32::try_from(n_endpoints).unwrap_or(u32::MAX);
        let pause = PAUSE_PER_ENDPOINT.saturating_mul(factor).min(PAUSE_MAX);
        self.lock().insert(service.clone(), (self.clock.now(), pause));
    }

    /// How long to leave the Service alone; absent when it may be written now.
    pub(crate) fn wait(&self, service: &ObjectKey) -> Option<Duration> {
        let mut written = self.lock();
        let (at, pause) = *written.get(service)?;
        // A clock that was set back must not make a long pause of a short one.
        let left = pods::remaining(at, pause, self.clock.now()).min(pause);
        if left.is_zero() {
            written.remove(service);
            return None;
        }
        Some(left)
    }

    /// The Service is gone.
    pub(crate) fn forget(&self, service: &ObjectKey) {
        self.lock().remove(service);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use apimachinery::ObjectKey;
    use stdx::World;

    use super::Pace;

    #[tokio::test(start_paused = true)]
    async fn large_services_wait_for_more_changes_and_small_ones_hardly() {
        let (pace, service) =
            (Pace::new(World::simulated(1).clock), ObjectKey::new("default", "web"));
        assert_eq!(pace.wait(&service), None);
        for (n_endpoints, pause) in [(3, 3), (200, 200), (5000, 500)] {
            pace.wrote(&service, n_endpoints);
            assert_eq!(pace.wait(&service), Some(Duration::from_millis(pause)));
            tokio::time::sleep(Duration::from_millis(pause + 1)).await;
            assert_eq!(pace.wait(&service), None);
        }
        pace.wrote(&service, 0);
        assert_eq!(pace.wait(&service), None);
        assert!(pace.lock().is_empty());
    }
}
