//! Random work on a simulated disk, with a crash at every operation of it in turn.

use crate::embedded;

/// Crashes the log at every operation of random work, until there were so many crashes.
pub fn log(seed: u64, n_crashes: usize) -> Result<(), embedded::log::torture::Failure> {
    embedded::log::torture::run(seed, n_crashes)
}

/// The same for the whole engine: transactions, leases, compaction, rewriting, a failing disk.
pub fn engine(seed: u64, n_crashes: usize) -> Result<(), embedded::torture::Failure> {
    embedded::torture::run(seed, n_crashes)
}
