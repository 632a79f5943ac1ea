//! One crash among many, and how a driver tells that it was not survived: what the tortures of the
//! log and of the engine share.

/// A crash that was not survived, with all that it takes to see it again.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{why} (again: torture::replay({at:?}))")]
pub struct Failure {
    pub at: Point,
    pub why: String,
}

/// One crash: the work, the operation that it stops at, and what becomes of what was not synced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Point {
    pub work: u64,
    pub operation: usize,
    pub crash: u64,
}

/// A work has to stop: the machine did, or what is tried broke a promise.
pub(crate) enum Stop {
    Crashed,
    Broken(String),
}
