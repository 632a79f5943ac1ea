//! What a controller wrote and has not yet seen come back through its cache.
//!
//! A cache may be behind the controller's own writes, so a controller that counts pods in it could create twice.
//! It notes what it is about to do and does not plan again for that owner until every note is crossed off, or five
//! minutes have passed: then an event was lost, and looking again is the better choice.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use apimachinery::ObjectKey;
use jiff::{SignedDuration, Timestamp};
use stdx::SharedClock;

const EXPIRY: SignedDuration = SignedDuration::from_mins(5);

/// By owner. Call `expect_…` before the write and `…_observed` from the informer's handlers; when the write fails, call
/// `…_observed` yourself, since no event will come.
pub struct Expectations {
    clock: SharedClock,
    owners: Mutex<BTreeMap<ObjectKey, Awaited>>,
}

#[derive(Default)]
struct Awaited {
    creations: usize,
    deletions: BTreeSet<ObjectKey>,
    since: Timestamp,
}

impl Expectations {
    pub fn new(clock: SharedClock) -> Self {
        Self { clock, owners: Mutex::default() }
    }

    fn owners(&self) -> MutexGuard<'_, BTreeMap<ObjectKey, Awaited>> {
        self.owners.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn expect(&self, key: &ObjectKey, note: impl FnOnce(&mut Awaited)) {
        let now = self.clock.now();
        let mut owners = self.owners();
        // What has expired is given up, so that it does not block the next round as well.
        owners.retain(|_, it| now.duration_since(it.since) < EXPIRY);
        let awaited = owners.entry(key.clone()).or_default();
        awaited.since = now;
        note(awaited);
    }

    fn observe(&self, key: &ObjectKey, cross_off: impl FnOnce(&mut Awaited)) {
        let mut owners = self.owners();
        let Some(awaited) = owners.get_mut(key) else { return };
        cross_off(awaited);
        if awaited.creations == 0 && awaited.deletions.is_empty() {
            owners.remove(key);
        }
    }

    pub fn expect_creations(&self, key: &ObjectKey, count: usize) {
        if count > 0 {
            self.expect(key, |it| it.creations += count);
        }
    }

    pub fn expect_deletions(&self, key: &ObjectKey, pods: Vec<ObjectKey>) {
        if !pods.is_empty() {
            self.expect(key, |it| it.deletions.extend(pods));
        }
    }

    pub fn creation_observed(&self, key: &ObjectKey) {
        self.observe(key, |it| it.creations = it.creations.saturating_sub(1));
    }

    /// By name, since the deletion of a pod can be seen twice: when it gets its timestamp and when it is gone.
    pub fn deletion_observed(&self, key: &ObjectKey, pod: &ObjectKey) {
        self.observe(key, |it| {
            it.deletions.remove(pod);
        });
    }

    pub fn is_satisfied(&self, key: &ObjectKey) -> bool {
        let now = self.clock.now();
        self.owners().get(key).is_none_or(|it| now.duration_since(it.since) >= EXPIRY)
    }

    /// The owner is gone.
    pub fn forget(&self, key: &ObjectKey) {
        self.owners().remove(key);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use apimachinery::ObjectKey;
    use stdx::World;

    use super::Expectations;

    fn key(name: &str) -> ObjectKey {
        ObjectKey::new("default", name)
    }

    #[tokio::test(start_paused = true)]
    async fn every_creation_must_be_seen() {
        let expectations = Expectations::new(World::simulated(1).clock);
        let owner = key("web");
        assert!(expectations.is_satisfied(&owner));
        expectations.expect_creations(&owner, 2);
        expectations.creation_observed(&owner);
        assert!(!expectations.is_satisfied(&owner));
        assert!(expectations.is_satisfied(&key("other")));
        expectations.creation_observed(&owner);
        assert!(expectations.is_satisfied(&owner));
    }

    #[tokio::test(start_paused = true)]
    async fn a_deletion_seen_twice_counts_once() {
        let expectations = Expectations::new(World::simulated(1).clock);
        let owner = key("web");
        expectations.expect_deletions(&owner, vec![key("web-1"), key("web-2")]);
        expectations.deletion_observed(&owner, &key("web-1"));
        expectations.deletion_observed(&owner, &key("web-1"));
        assert!(!expectations.is_satisfied(&owner));
        expectations.deletion_observed(&owner, &key("web-2"));
        assert!(expectations.is_satisfied(&owner));
    }

    #[tokio::test(start_paused = true)]
    async fn a_lost_event_blocks_for_five_minutes_only() {
        let expectations = Expectations::new(World::simulated(1).clock);
        let owner = key("web");
        expectations.expect_creations(&owner, 1);
        tokio::time::sleep(Duration::from_secs(299)).await;
        assert!(!expectations.is_satisfied(&owner));
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert!(expectations.is_satisfied(&owner));
    }
}
