//! Long random work on a simulated disk that crashes, for `cargo xtask torture store`. The same seed does the same again.

use crate::embedded;

/// Crashes the log at every operation of random work, until there were so many crashes.
pub fn log(seed: u64, n_crashes: usize) -> Result<(), embedded::log::torture::Failure> {
    embedded::log::torture::run(seed, n_crashes)
}

/// The same for the whole engine: transactions, leases, compaction, rewriting, a failing disk.
pub fn engine(seed: u64, n_crashes: usize) -> Result<(), embedded::torture::Failure> {
    embedded::torture::run(seed, n_crashes)
}
