//! The operator SDK: a builder of controllers, work queue, workers, retry, own writes, events,
//! leader election.
//!
//! A reconciler gets a key, never an event; it is level-triggered and idempotent; an error means
//! backoff by the queue, so no reconciler sleeps or retries by itself.

mod change;
mod controller;
mod events;
mod failure;
mod leader;
mod own_writes;
mod owners;
mod queue;
pub mod testing;
mod workers;

pub use change::{Change, on_change};
pub use controller::Controller;
pub use events::{EventRecorder, EventType};
pub use failure::{Failed, Outcome, is_namespace_ending, is_namespace_gone};
pub use leader::{Election, Terms, TermsError, with_leadership, with_leaderships};
pub use own_writes::{OwnWrites, PATIENCE};
pub use owners::{itself, owner_key};
pub use queue::{Key, WorkQueue};
pub use workers::{Next, Reconciler};
