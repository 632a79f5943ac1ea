//! The work queue: which keys need work, which are worked on, and which wait for their time.
//!
//! Promises: a key is given to one worker at a time; a key added while it is worked on is given out
//! again afterwards; many additions before work starts are one piece of work. Does not promise that
//! every addition is seen, only that work starts after the last one.

mod metrics;

use std::collections::{BTreeMap, VecDeque};
use std::fmt::Display;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use apimachinery::ObjectKey;
use stdx::Pace;
use telemetry::{Registry, Watched};
use tokio::sync::Notify;
use tokio::time::Instant;

use metrics::Metrics;

const DELAY_FIRST: Duration = Duration::from_millis(5);
const DELAY_MAX: Duration = Duration::from_secs(1000);
/// Over all keys: many that fail at once are not a load of their own.
const RETRIES_PER_SECOND: f64 = 10.0;
const RETRIES_AT_ONCE: f64 = 100.0;
/// Nothing is put off for longer: delays come from objects, and there is no time that lies 2^63
/// seconds ahead. Who is woken early looks again.
const AHEAD_MAX: Duration = Duration::from_secs(30 * 24 * 3_600);

/// What work is named by: an object's key, a uid, a node and a set, or an enum of what one queue
/// carries.
pub trait Key: Clone + Display + Ord + Send + Sync + 'static {}

impl<K: Clone + Display + Ord + Send + Sync + 'static> Key for K {}

/// Keys waiting for work: each at most once, never two workers on one key. Cheap to clone.
pub struct WorkQueue<K = ObjectKey> {
    shared: Arc<Shared<K>>,
}

impl<K> Clone for WorkQueue<K> {
    fn clone(&self) -> Self {
        Self { shared: self.shared.clone() }
    }
}

struct Shared<K> {
    name: &'static str,
    state: Mutex<State<K>>,
    /// One permit per change that a waiting worker should look at. Whoever takes a key passes the
    /// permit on when there is more to wait for, so that a delay is never left without a worker
    /// that sleeps until it.
    changed: Notify,
    /// Empty for a queue that nobody measures.
    metrics: OnceLock<Metrics>,
}

struct State<K> {
    /// The order of work. Every key here is in `dirty` and not in `processing`.
    queue: VecDeque<K>,
    /// Needs work that has not started; since when.
    dirty: BTreeMap<K, Instant>,
    /// A worker has it; since when. A key in `dirty` too goes back to `queue` when the worker is
    /// done.
    processing: BTreeMap<K, Instant>,
    /// By due time, then by order of addition. Every key here is in `due` with the same time.
    delayed: BTreeMap<(Instant, u64), K>,
    due: BTreeMap<K, (Instant, u64)>,
    /// Makes equal due times different; never used again.
    next_delay: u64,
    /// Failures in a row.
    failures: BTreeMap<K, u32>,
    /// Of retries, whatever their keys.
    pace: Pace,
}

impl<K> Default for State<K> {
    fn default() -> Self {
        Self {
            queue: VecDeque::new(),
            dirty: BTreeMap::new(),
            processing: BTreeMap::new(),
            delayed: BTreeMap::new(),
            due: BTreeMap::new(),
            next_delay: 0,
            failures: BTreeMap::new(),
            pace: Pace::new(RETRIES_PER_SECOND, RETRIES_AT_ONCE),
        }
    }
}

impl<K: Key> State<K> {
    /// Whether a worker should be woken.
    fn add(&mut self, key: K, now: Instant, metrics: Option<&Metrics>) -> bool {
        if self.dirty.contains_key(&key) {
            return false;
        }
        self.dirty.insert(key.clone(), now);
        if let Some(metrics) = metrics {
            metrics.adds.increment();
        }
        if self.processing.contains_key(&key) {
            return false;
        }
        self.queue.push_back(key);
        true
    }

    fn delay(&mut self, key: K, due: Instant) {
        if let Some(earlier) = self.due.get(&key) {
            if earlier.0 <= due {
                return;
            }
            self.delayed.remove(earlier);
        }
        let slot = (due, self.next_delay);
        self.next_delay += 1;
        self.delayed.insert(slot, key.clone());
        self.due.insert(key, slot);
    }

    fn release_due(&mut self, now: Instant, metrics: Option<&Metrics>) {
        while let Some(entry) = self.delayed.first_entry() {
            if entry.key().0 > now {
                return;
            }
            let key = entry.remove();
            self.due.remove(&key);
            self.add(key, now, metrics);
        }
    }

    fn take(&mut self, now: Instant, metrics: Option<&Metrics>) -> Option<K> {
        let key = self.queue.pop_front()?;
        let since = self.dirty.remove(&key);
        if let (Some(metrics), Some(since)) = (metrics, since) {
            metrics.waited.observe(now.saturating_duration_since(since));
        }
        self.processing.insert(key.clone(), now);
        Some(key)
    }

    fn next_due(&self) -> Option<Instant> {
        self.delayed.first_key_value().map(|((due, _), _)| *due)
    }
}

impl<K: Key> WorkQueue<K> {
    /// Retries wait by key, 5 ms to 1000 s, and over all keys, 10 a second after the first 100, as
    /// with client-go's default rate limiter.
    pub fn new(name: &'static str) -> Self {
        let shared = Shared {
            name,
            state: Mutex::default(),
            changed: Notify::new(),
            metrics: OnceLock::new(),
        };
        Self { shared: Arc::new(shared) }
    }

    /// Shows the queue on the registry's page from now on, for as long as somebody has it.
    pub fn measure(&self, registry: &Registry) {
        if self.shared.metrics.set(Metrics::new(registry, self.name())).is_err() {
            return;
        }
        let shared = Arc::downgrade(&self.shared);
        registry.on_read(move || {
            let Some(shared) = shared.upgrade() else { return Watched::Gone };
            Self { shared }.show();
            Watched::Alive
        });
    }

    fn show(&self) {
        let (state, now) = (self.state(), Instant::now());
        if let Some(metrics) = self.metrics() {
            let running = state.processing.values().map(|it| now.saturating_duration_since(*it));
            metrics.show(state.queue.len(), running);
        }
    }

    fn metrics(&self) -> Option<&Metrics> {
        self.shared.metrics.get()
    }

    pub fn name(&self) -> &'static str {
        self.shared.name
    }

    fn state(&self) -> MutexGuard<'_, State<K>> {
        self.shared.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn add(&self, key: K) {
        if self.state().add(key, Instant::now(), self.metrics()) {
            self.shared.changed.notify_one();
        }
    }

    /// A key that already waits keeps the earlier of both times.
    pub fn add_after(&self, key: K, delay: Duration) {
        if delay.is_zero() {
            return self.add(key);
        }
        self.state().delay(key, Instant::now() + delay.min(AHEAD_MAX));
        self.shared.changed.notify_one();
    }

    /// Adds the key after the delay that its failures so far ask for, or that of all keys, if that
    /// is longer, and counts one more failure.
    pub fn add_rate_limited(&self, key: K) {
        if let Some(metrics) = self.metrics() {
            metrics.retries.increment();
        }
        let delay = {
            let mut state = self.state();
            let failures = state.failures.entry(key.clone()).or_default();
            let delay = backoff(*failures);
            *failures = failures.saturating_add(1);
            delay.max(state.pace.reserve(Instant::now()))
        };
        self.add_after(key, delay);
    }

    /// Ends the row of failures: the next one starts with the shortest delay again.
    pub fn forget(&self, key: &K) {
        self.state().failures.remove(key);
    }

    pub fn failures(&self, key: &K) -> u32 {
        self.state().failures.get(key).copied().unwrap_or_default()
    }

    /// Keys that can be worked on now.
    pub fn len(&self) -> usize {
        self.state().queue.len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Waits for a key. The caller must call `done` with it, whatever happens. Dropping the future
    /// loses nothing.
    pub async fn take(&self) -> K {
        loop {
            let changed = self.shared.changed.notified();
            let next_due = {
                let mut state = self.state();
                let now = Instant::now();
                state.release_due(now, self.metrics());
                if let Some(key) = state.take(now, self.metrics()) {
                    if !state.queue.is_empty() || !state.delayed.is_empty() {
                        self.shared.changed.notify_one();
                    }
                    return key;
                }
                state.next_due()
            };
            match next_due {
                None => changed.await,
                Some(due) => tokio::select! {
                    biased;
                    () = changed => {}
                    () = tokio::time::sleep_until(due) => {}
                },
            }
        }
    }

    pub fn done(&self, key: &K) {
        let mut state = self.state();
        let since = state.processing.remove(key);
        if let (Some(metrics), Some(since)) = (self.metrics(), since) {
            metrics.worked.observe(since.elapsed());
        }
        if state.dirty.contains_key(key) {
            state.queue.push_back(key.clone());
            self.shared.changed.notify_one();
        }
    }
}

fn backoff(failures: u32) -> Duration {
    // 5 ms * 2^18 is already above the maximum.
    DELAY_FIRST.saturating_mul(1 << failures.min(18)).min(DELAY_MAX)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use apimachinery::ObjectKey;
    use futures_util::FutureExt as _;
    use telemetry::Registry;
    use tokio::time::Instant;

    use super::{WorkQueue, backoff};

    fn key(name: &str) -> ObjectKey {
        ObjectKey::new("default", name)
    }

    fn take_now(queue: &WorkQueue) -> Option<String> {
        queue.take().now_or_never().map(|it| it.name)
    }

    #[tokio::test(start_paused = true)]
    async fn a_delay_beyond_all_time_is_one_that_is_looked_at_again() {
        let queue = WorkQueue::new("test");
        queue.add_after(key("a"), Duration::MAX);
        queue.add_after(key("b"), Duration::from_secs(i64::MAX.cast_unsigned()));
        assert_eq!(queue.take().await.name, "a");
    }

    #[test]
    fn a_key_added_often_is_worked_on_once() {
        let queue = WorkQueue::new("test");
        queue.add(key("a"));
        queue.add(key("b"));
        queue.add(key("a"));
        assert_eq!(queue.len(), 2);
        assert_eq!(take_now(&queue).as_deref(), Some("a"));
        assert_eq!(take_now(&queue).as_deref(), Some("b"));
        assert_eq!(take_now(&queue), None);
    }

    #[test]
    fn a_key_added_during_its_work_waits_until_that_is_done() {
        let queue = WorkQueue::new("test");
        queue.add(key("a"));
        assert_eq!(take_now(&queue).as_deref(), Some("a"));
        queue.add(key("a"));
        assert_eq!(take_now(&queue), None);
        queue.done(&key("a"));
        assert_eq!(take_now(&queue).as_deref(), Some("a"));
        queue.done(&key("a"));
        assert_eq!(take_now(&queue), None);
    }

    #[tokio::test(start_paused = true)]
    async fn the_earlier_of_two_delays_counts() {
        let queue = WorkQueue::new("test");
        let start = Instant::now();
        queue.add_after(key("a"), Duration::from_secs(9));
        queue.add_after(key("a"), Duration::from_secs(3));
        queue.add_after(key("a"), Duration::from_secs(6));
        assert_eq!(queue.take().await, key("a"));
        assert_eq!(start.elapsed().as_secs(), 3);
        queue.done(&key("a"));
        let again = tokio::time::timeout(Duration::from_secs(60), queue.take()).await;
        assert!(again.is_err(), "the later delays were dropped");
    }

    #[tokio::test(start_paused = true)]
    async fn a_shorter_delay_wakes_a_worker_that_sleeps_for_a_longer_one() {
        let queue = WorkQueue::new("test");
        let start = Instant::now();
        queue.add_after(key("late"), Duration::from_secs(100));
        let (first, ()) = tokio::join!(queue.take(), async {
            tokio::time::sleep(Duration::from_secs(1)).await;
            queue.add_after(key("soon"), Duration::from_secs(1));
        });
        assert_eq!((first, start.elapsed().as_secs()), (key("soon"), 2));
    }

    #[tokio::test(start_paused = true)]
    async fn an_idle_worker_takes_over_the_delays_of_a_busy_one() {
        let queue = WorkQueue::new("test");
        queue.add_after(key("late"), Duration::from_secs(5));
        queue.add(key("now"));
        let (first, second) = tokio::join!(queue.take(), queue.take());
        assert_eq!((first, second), (key("now"), key("late")));
    }

    #[test]
    fn delays_double_from_5_ms_up_to_1000_s() {
        let check = |failures, expected| assert_eq!(backoff(failures).as_millis(), expected);
        check(0, 5);
        check(1, 10);
        check(10, 5120);
        check(17, 655_360);
        check(18, 1_000_000);
        check(u32::MAX, 1_000_000);
    }

    #[tokio::test(start_paused = true)]
    async fn many_keys_that_fail_are_retried_at_one_pace() {
        let queue = WorkQueue::new("test");
        let start = Instant::now();
        for n in 0..150 {
            queue.add_rate_limited(key(&n.to_string()));
        }
        for _ in 0..150 {
            let key = queue.take().await;
            queue.done(&key);
        }
        assert_eq!(start.elapsed().as_secs(), 5);
    }

    #[test]
    fn forgetting_ends_the_row_of_failures() {
        let queue = WorkQueue::new("test");
        queue.state().failures.insert(key("a"), 3);
        assert_eq!(queue.failures(&key("a")), 3);
        queue.forget(&key("a"));
        assert_eq!(queue.failures(&key("a")), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn a_queue_shows_what_waits_and_what_is_under_way() {
        let (registry, queue) = (Registry::default(), WorkQueue::new("test"));
        queue.measure(&registry);
        for name in ["a", "b", "a"] {
            queue.add(key(name));
        }
        tokio::time::sleep(Duration::from_secs(2)).await;
        let taken = queue.take().await;
        tokio::time::sleep(Duration::from_secs(3)).await;
        let check = |expected: &[&str]| {
            let page = registry.render();
            for line in expected {
                assert!(page.lines().any(|it| it == *line), "{line} is not in\n{page}");
            }
        };
        check(&[
            r#"workqueue_adds_total{name="test"} 2"#,
            r#"workqueue_depth{name="test"} 1"#,
            r#"workqueue_queue_duration_seconds_sum{name="test"} 2"#,
            r#"workqueue_queue_duration_seconds_bucket{name="test",le="9.999999999999999e-06"} 0"#,
            r#"workqueue_unfinished_work_seconds{name="test"} 3"#,
            r#"workqueue_longest_running_processor_seconds{name="test"} 3"#,
            r#"workqueue_work_duration_seconds_count{name="test"} 0"#,
        ]);
        queue.add_rate_limited(taken.clone());
        queue.done(&taken);
        check(&[
            r#"workqueue_retries_total{name="test"} 1"#,
            r#"workqueue_unfinished_work_seconds{name="test"} 0"#,
            r#"workqueue_work_duration_seconds_sum{name="test"} 3"#,
        ]);
    }
}
