//! The operator SDK: work queue, workers, retry, events, leader election.
//!
//! A reconciler gets a key, never an event; it is level-triggered and idempotent; an error means backoff by the
//! queue, so no reconciler sleeps or retries by itself.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use api::Resource;
use apimachinery::ObjectKey;
use client::Client;
use informer::SharedInformer;
use lifecycle::Tasks;
use stdx::World;

/// What a reconcile asks for when it went well.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    Settled,
    /// Look again after this long even if nothing changes.
    After(Duration),
}

pub trait Reconciler: Send + Sync + 'static {
    type Error: std::error::Error + Send + 'static;
    fn reconcile(&self, key: &ObjectKey) -> impl Future<Output = Result<Next, Self::Error>> + Send;
}

/// Keys waiting for work: each at most once, never two workers on one key. Cheap to clone.
#[derive(Clone)]
pub struct WorkQueue {
    _private: Arc<()>,
}

#[expect(unused_variables, reason = "contract only")]
impl WorkQueue {
    /// Per-key backoff 5 ms to 1000 s, as client-go's default rate limiter.
    pub fn new(name: &'static str) -> Self {
        todo!()
    }
    pub fn add(&self, key: ObjectKey) {
        todo!()
    }
    pub fn add_after(&self, key: ObjectKey, delay: Duration) {
        todo!()
    }
    pub fn add_rate_limited(&self, key: ObjectKey) {
        todo!()
    }
    pub fn forget(&self, key: &ObjectKey) {
        todo!()
    }
    pub fn len(&self) -> usize {
        todo!()
    }
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Starts `workers` tasks that take keys from the queue until shutdown.
#[expect(unused_variables, reason = "contract only")]
pub fn run<R: Reconciler>(tasks: &Tasks, queue: WorkQueue, workers: usize, reconciler: Arc<R>) {
    todo!()
}

/// Puts keys made from each object of a kind into a queue, on add, update and delete.
#[expect(unused_variables, reason = "contract only")]
pub fn enqueue<T: Resource>(
    informer: &SharedInformer<T>,
    queue: &WorkQueue,
    keys: impl Fn(&T) -> Vec<ObjectKey> + Send + Sync + 'static,
) {
    todo!()
}

/// Records core/v1 Events, aggregated and rate limited as client-go's correlator does (same event again: count + 1).
/// Never waits and never fails: events are written by a task of its own from a bounded queue.
#[derive(Clone)]
pub struct EventRecorder {
    _private: Arc<()>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EventType {
    Normal,
    Warning,
}

#[expect(unused_variables, reason = "contract only")]
impl EventRecorder {
    pub fn new(tasks: &Tasks, client: Client, world: World, component: &'static str) -> Self {
        todo!()
    }
    pub fn event<T: Resource>(&self, about: &T, kind: EventType, reason: &str, message: String) {
        todo!()
    }
}

/// Runs `lead` only while holding the Lease `kube-system/<name>` (15 s duration, 10 s renew deadline, 2 s retry).
#[expect(unused_variables, reason = "contract only")]
pub fn with_leadership<F>(
    tasks: &Tasks,
    client: Client,
    world: World,
    name: &'static str,
    identity: String,
    lead: impl FnOnce(Tasks) -> F + Send + 'static,
) where
    F: Future<Output = ()> + Send + 'static,
{
    todo!()
}
