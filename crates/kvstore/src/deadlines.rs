//! When leases end. Pure: whoever owns it says what time it is, and does what ending means.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tokio::time::Instant;

use crate::LeaseId;

/// What a deadline is when the clock cannot count that far: about as good as never.
const FAR: Duration = Duration::from_secs(30 * 365 * 24 * 60 * 60);

#[derive(Debug, Default)]
pub(crate) struct Deadlines {
    leases: BTreeMap<LeaseId, Lease>,
    /// The same, by time: what ends first comes first, and leases that end together go by id.
    order: BTreeSet<(Instant, LeaseId)>,
}

#[derive(Clone, Copy, Debug)]
struct Lease {
    ttl: Duration,
    ends: Instant,
}

impl Deadlines {
    /// A lease that is there already starts again.
    pub(crate) fn grant(&mut self, id: LeaseId, ttl: Duration, now: Instant) {
        let ends = now.checked_add(ttl).unwrap_or(now + FAR);
        if let Some(old) = self.leases.insert(id, Lease { ttl, ends }) {
            self.order.remove(&(old.ends, id));
        }
        self.order.insert((ends, id));
    }

    /// Returns the whole time, which the lease has left now. A lease whose time has come is kept
    /// too, as long as nobody has ended it: that is for the caller to decide.
    pub(crate) fn keep_alive(&mut self, id: LeaseId, now: Instant) -> Option<Duration> {
        let ttl = self.leases.get(&id)?.ttl;
        self.grant(id, ttl, now);
        Some(ttl)
    }

    pub(crate) fn revoke(&mut self, id: LeaseId) {
        if let Some(lease) = self.leases.remove(&id) {
            self.order.remove(&(lease.ends, id));
        }
    }

    pub(crate) fn remaining(&self, id: LeaseId, now: Instant) -> Option<Duration> {
        self.leases.get(&id).map(|it| it.ends.saturating_duration_since(now))
    }

    /// When something ends next.
    pub(crate) fn next(&self) -> Option<Instant> {
        self.order.first().map(|(ends, _)| *ends)
    }

    /// What has ended, earliest first. It stays until it is revoked.
    pub(crate) fn expired(&self, now: Instant) -> Vec<LeaseId> {
        self.order.iter().take_while(|(ends, _)| *ends <= now).map(|(_, id)| *id).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lease(id: i64) -> LeaseId {
        LeaseId::new(id).unwrap()
    }

    #[test]
    fn leases_end_in_the_order_of_their_deadlines() {
        let (mut deadlines, start) = (Deadlines::default(), Instant::now());
        let after = |seconds| start + Duration::from_secs(seconds);
        for (id, ttl) in [(1, 30), (2, 10), (3, 20), (4, 10)] {
            deadlines.grant(lease(id), Duration::from_secs(ttl), start);
        }
        assert_eq!(deadlines.next(), Some(after(10)));
        assert_eq!(deadlines.expired(after(9)), []);
        assert_eq!(deadlines.expired(after(10)), [lease(2), lease(4)]);
        assert_eq!(deadlines.keep_alive(lease(2), after(9)), Some(Duration::from_secs(10)));
        deadlines.revoke(lease(4));
        assert_eq!(deadlines.expired(after(19)), [lease(2)]);
        assert_eq!(deadlines.expired(after(99)), [lease(2), lease(3), lease(1)]);
        assert_eq!(deadlines.remaining(lease(3), after(15)), Some(Duration::from_secs(5)));
        assert_eq!(deadlines.remaining(lease(3), after(25)), Some(Duration::ZERO));
        assert_eq!(deadlines.remaining(lease(4), start), None);
        assert_eq!(deadlines.keep_alive(lease(4), start), None);
    }

    #[test]
    fn a_lease_without_a_countable_end_does_not_end() {
        let (mut deadlines, now) = (Deadlines::default(), Instant::now());
        deadlines.grant(lease(1), Duration::MAX, now);
        assert!(deadlines.next().is_some_and(|it| it > now + FAR / 2));
        assert_eq!(deadlines.keep_alive(lease(1), now), Some(Duration::MAX));
    }
}
