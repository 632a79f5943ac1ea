//! Whether what concurrent clients saw could have happened one operation after another, each at one
//! moment between its call and its answer. Answers tell revisions, and a revision is a place in the
//! order; so the order is known, and what is left to find is which of the writes without an answer
//! happened, and when.

mod check;
mod history;
#[cfg(test)]
mod tests;
mod workload;

pub use check::{Violation, check};
pub use history::{Answer, Call, Client, History, Operation, Recorder};
pub use workload::{Workload, run};
