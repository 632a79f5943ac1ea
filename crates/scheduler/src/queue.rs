//! The pods that wait for a node. Pure: time is given, nothing sleeps here.
//!
//! Each waiting pod is in exactly one place: active (ready to be tried, by priority and then by
//! age), backing off (tried in vain a moment ago), unschedulable (nothing has changed that could
//! help), gated, or taken (being tried).

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use apimachinery::ObjectKey;
use tokio::time::Instant;

use crate::metrics::{Incoming, Pending, QueuedBy};
use crate::pod::PodRequirements;

const BACKOFF_FIRST: Duration = Duration::from_secs(1);
const BACKOFF_MAX: Duration = Duration::from_secs(10);
/// Nothing stays unschedulable longer than this without another try.
const UNSCHEDULABLE_MAX: Duration = Duration::from_secs(300);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Place {
    Active,
    BackingOff { until: Instant },
    Unschedulable { since: Instant },
    Gated,
    Taken,
}

struct Waiting {
    pod: PodRequirements,
    place: Place,
    /// Order of arrival: older pods of one priority go first.
    sequence: u64,
    attempts: u32,
    /// When it came.
    added: Instant,
    /// When its last try failed; a pod is not tried again before its backoff from here.
    failed_at: Option<Instant>,
}

#[derive(Default)]
pub(crate) struct Queue {
    waiting: BTreeMap<ObjectKey, Waiting>,
    /// Exactly the pods whose place is `Active`.
    active: BTreeSet<(Reverse<i32>, u64, ObjectKey)>,
    /// Exactly the pods that are `BackingOff` or `Unschedulable`, by when they become active by
    /// themselves.
    deadlines: BTreeSet<(Instant, ObjectKey)>,
    next_sequence: u64,
    /// Which queue pods came into, and why.
    incoming: Option<Incoming>,
}

impl Waiting {
    fn backoff(&self) -> Duration {
        let doublings = self.attempts.saturating_sub(1).min(8);
        BACKOFF_FIRST.saturating_mul(1 << doublings).min(BACKOFF_MAX)
    }

    fn deadline(&self) -> Option<Instant> {
        match self.place {
            Place::BackingOff { until } => Some(until),
            Place::Unschedulable { since } => Some(since + UNSCHEDULABLE_MAX),
            Place::Active | Place::Gated | Place::Taken => None,
        }
    }
}

impl Queue {
    /// A pod without a node appeared or changed. A changed pod is tried again: the change may help.
    pub(crate) fn observe(&mut self, pod: PodRequirements, now: Instant) {
        let key = pod.key().clone();
        let is_gated = pod.pod.spec.has_gates;
        let (sequence, attempts, (added, failed_at), was) = match self.remove(&key) {
            Some(it) if it.pod.pod.meta.uid == pod.pod.meta.uid => {
                (it.sequence, it.attempts, (it.added, it.failed_at), Some(it.place))
            }
            _ => {
                self.next_sequence += 1;
                (self.next_sequence, 0, (now, None), None)
            }
        };
        let why = if was.is_some() {
            QueuedBy::UnschedulablePodUpdate
        } else {
            QueuedBy::UnschedulablePodAdd
        };
        let mut waiting =
            Waiting { pod, place: Place::Active, sequence, attempts, added, failed_at };
        waiting.place = match was {
            _ if is_gated => Place::Gated,
            Some(Place::Taken) => Place::Taken,
            _ => ready_place(&waiting, now),
        };
        self.note(&waiting.place, why);
        self.insert(key, waiting);
    }

    /// Counts from now on.
    pub(crate) fn measure(&mut self, incoming: Incoming) {
        self.incoming = Some(incoming);
    }

    fn note(&self, place: &Place, why: QueuedBy) {
        let queue = match place {
            Place::Active => "active",
            Place::BackingOff { .. } => "backoff",
            // Upstream keeps both in one place.
            Place::Unschedulable { .. } | Place::Gated => "unschedulable",
            Place::Taken => return,
        };
        if let Some(incoming) = &self.incoming {
            incoming.count(queue, why);
        }
    }

    /// When the pod came, and how often it was tried.
    pub(crate) fn tried(&self, key: &ObjectKey) -> Option<(Instant, u32)> {
        self.waiting.get(key).map(|it| (it.added, it.attempts))
    }

    pub(crate) fn pending(&self) -> Pending {
        let mut pending = Pending::default();
        for waiting in self.waiting.values() {
            match waiting.place {
                Place::Active => pending.active += 1,
                Place::BackingOff { .. } => pending.backoff += 1,
                Place::Unschedulable { .. } => pending.unschedulable += 1,
                Place::Gated => pending.gated += 1,
                Place::Taken => {}
            }
        }
        pending
    }

    pub(crate) fn forget(&mut self, key: &ObjectKey) {
        self.remove(key);
    }

    /// The next pod to try.
    pub(crate) fn take(&mut self) -> Option<PodRequirements> {
        let (_, _, key) = self.active.first()?.clone();
        let mut waiting = self.remove(&key)?;
        waiting.place = Place::Taken;
        waiting.attempts += 1;
        let pod = waiting.pod.clone();
        self.insert(key, waiting);
        Some(pod)
    }

    /// No node fits: wait for a change of the cluster.
    pub(crate) fn put_back_unschedulable(&mut self, key: &ObjectKey, now: Instant) {
        self.put_back(key, now, |_| Place::Unschedulable { since: now });
    }

    /// Something went wrong that time may heal, such as a refused binding.
    pub(crate) fn put_back_failed(&mut self, key: &ObjectKey, now: Instant) {
        self.put_back(key, now, |waiting| Place::BackingOff { until: now + waiting.backoff() });
    }

    fn put_back(&mut self, key: &ObjectKey, now: Instant, place: impl FnOnce(&Waiting) -> Place) {
        let Some(mut waiting) = self.remove(key) else { return };
        waiting.failed_at = Some(now);
        waiting.place = place(&waiting);
        self.note(&waiting.place, QueuedBy::ScheduleAttemptFailure);
        self.insert(key.clone(), waiting);
    }

    /// The cluster changed in a way that may help: every unschedulable pod gets another try, after
    /// its backoff.
    pub(crate) fn cluster_changed(&mut self, now: Instant, why: QueuedBy) {
        let stuck: Vec<ObjectKey> = self
            .deadlines
            .iter()
            .map(|(_, key)| key.clone())
            .filter(|key| {
                matches!(
                    self.waiting.get(key).map(|it| &it.place),
                    Some(Place::Unschedulable { .. })
                )
            })
            .collect();
        for key in stuck {
            if let Some(mut waiting) = self.remove(&key) {
                waiting.place = ready_place(&waiting, now);
                self.note(&waiting.place, why);
                self.insert(key, waiting);
            }
        }
    }

    /// Moves what is due to active; returns when to call again.
    pub(crate) fn advance(&mut self, now: Instant) -> Option<Instant> {
        loop {
            let (deadline, key) = self.deadlines.first()?.clone();
            if deadline > now {
                return Some(deadline);
            }
            if let Some(mut waiting) = self.remove(&key) {
                let why = match waiting.place {
                    Place::BackingOff { .. } => QueuedBy::BackoffComplete,
                    _ => QueuedBy::UnschedulableTimeout,
                };
                waiting.place = Place::Active;
                self.note(&waiting.place, why);
                self.insert(key, waiting);
            }
        }
    }

    pub(crate) fn has_active(&self) -> bool {
        !self.active.is_empty()
    }

    fn insert(&mut self, key: ObjectKey, waiting: Waiting) {
        if waiting.place == Place::Active {
            self.active.insert((
                Reverse(waiting.pod.pod.spec.priority),
                waiting.sequence,
                key.clone(),
            ));
        }
        if let Some(deadline) = waiting.deadline() {
            self.deadlines.insert((deadline, key.clone()));
        }
        self.waiting.insert(key, waiting);
    }

    fn remove(&mut self, key: &ObjectKey) -> Option<Waiting> {
        let waiting = self.waiting.remove(key)?;
        self.active.remove(&(
            Reverse(waiting.pod.pod.spec.priority),
            waiting.sequence,
            key.clone(),
        ));
        if let Some(deadline) = waiting.deadline() {
            self.deadlines.remove(&(deadline, key.clone()));
        }
        Some(waiting)
    }
}

/// Active, unless its backoff is not over yet.
fn ready_place(waiting: &Waiting, now: Instant) -> Place {
    match waiting.failed_at.map(|it| it + waiting.backoff()) {
        Some(until) if until > now => Place::BackingOff { until },
        _ => Place::Active,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::json;
    use tokio::time::Instant;

    use super::{Queue, QueuedBy};
    use crate::fixture::named;
    use crate::pod::PodRequirements;

    fn pod(name: &str, priority: i32) -> PodRequirements {
        named(name, json!({ "priority": priority }))
    }

    fn names(queue: &mut Queue) -> Vec<String> {
        std::iter::from_fn(|| queue.take()).map(|it| it.key().name.clone()).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn higher_priority_goes_first_then_age() {
        let mut queue = Queue::default();
        for (name, priority) in [("old", 0), ("new", 0), ("urgent", 10)] {
            queue.observe(pod(name, priority), Instant::now());
        }
        assert_eq!(names(&mut queue), ["urgent", "old", "new"]);
    }

    #[tokio::test(start_paused = true)]
    async fn an_unschedulable_pod_waits_for_a_change_and_for_its_backoff() {
        let mut queue = Queue::default();
        let now = Instant::now();
        queue.observe(pod("web", 0), now);
        let taken = queue.take().unwrap();
        queue.put_back_unschedulable(taken.key(), now);
        assert!(queue.take().is_none());
        queue.cluster_changed(now, QueuedBy::NodeAdd);
        assert!(queue.take().is_none(), "its backoff of 1 s is not over");
        let wake = queue.advance(now).unwrap();
        assert_eq!(wake - now, Duration::from_secs(1));
        queue.advance(wake);
        assert_eq!(names(&mut queue), ["web"]);
    }

    #[tokio::test(start_paused = true)]
    async fn nothing_is_unschedulable_for_longer_than_five_minutes() {
        let mut queue = Queue::default();
        let now = Instant::now();
        queue.observe(pod("web", 0), now);
        let taken = queue.take().unwrap();
        queue.put_back_unschedulable(taken.key(), now);
        let wake = queue.advance(now).unwrap();
        assert_eq!(wake - now, Duration::from_secs(300));
        queue.advance(wake);
        assert_eq!(names(&mut queue), ["web"]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_gated_pod_waits_until_its_gates_are_gone() {
        let mut queue = Queue::default();
        let gated = named("web", json!({ "schedulingGates": [{ "name": "wait" }] }));
        queue.observe(gated, Instant::now());
        assert!(queue.take().is_none());
        queue.observe(pod("web", 0), Instant::now());
        assert_eq!(names(&mut queue), ["web"]);
    }
}
