//! Benchmarks of the release binary, printed for `docs/benchmarks.md`.

mod node;
pub(crate) mod store;
pub(crate) mod up;
mod usage;
