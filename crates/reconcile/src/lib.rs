//! The operator SDK: work queue, workers, retry, events, leader election.
//!
//! A reconciler gets a key, never an event; it is level-triggered and idempotent; an error means backoff by the
//! queue, so no reconciler sleeps or retries by itself.

mod events;
mod expectations;
mod leader;
mod queue;
pub mod testing;
mod workers;

pub use events::{EventRecorder, EventType};
pub use expectations::Expectations;
pub use leader::{Election, with_leadership, with_leaderships};
pub use queue::WorkQueue;
pub use workers::{Next, Reconciler, enqueue, run, run_synced};
