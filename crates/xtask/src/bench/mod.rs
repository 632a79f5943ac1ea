//! Benchmarks of the release binary, printed for `docs/benchmarks.md`.

pub(crate) mod up;
