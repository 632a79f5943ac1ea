//! Chooses a node for each pod that has none, and says why when it cannot.
//!
//! Promises: a pod is bound at most once; a pod that fits nowhere says why, per reason and count,
//! in its condition and in an event, and is tried again when something that could help has changed.
//! Reads its own snapshot, kept up to date by informers; writes only bindings, pod conditions and
//! events.

mod binding;
mod cycle;
mod diagnosis;
#[cfg(test)]
mod fixture;
mod metrics;
mod node;
pub mod plugins;
mod pod;
mod queue;
mod scheduler;
mod snapshot;

pub use scheduler::{Config, start};
