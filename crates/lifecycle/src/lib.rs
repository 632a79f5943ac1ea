//! Named tasks, readiness and an orderly end.
//!
//! `Tasks` is the only way to start a task: each has a name, a parent and a shutdown signal, and a
//! shutdown that is late names the tasks that did not stop. Knows nothing of Kubernetes.

mod latch;
mod readiness;
mod tasks;

pub use latch::Latch;
pub use readiness::Readiness;
pub use tasks::{Late, Shutdown, Tasks};
