//! The operator SDK: work queue, workers, retry, events, leader election.
//!
//! A reconciler gets a key, never an event; it is level-triggered and idempotent; an error means backoff by the
//! queue, so no reconciler sleeps or retries by itself.

mod expectations;
mod queue;
mod workers;

use std::future::Future;
use std::sync::Arc;

use api::Resource;
use client::Client;
use lifecycle::Tasks;
use stdx::World;

pub use expectations::Expectations;
pub use queue::WorkQueue;
pub use workers::{Next, Reconciler, enqueue, run};

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
