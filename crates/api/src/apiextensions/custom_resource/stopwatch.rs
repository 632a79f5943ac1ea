//! How long rules take. Nothing here reads a clock: whoever has one measures.

use std::sync::Arc;

use apimachinery::cel::rules::Laps;

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// Of the rules of one part of a schema, when the first object comes that they are for.
    Compilation,
    /// Of the rules on one value, and on what is in it.
    Evaluation,
    /// Of what an object was with what it is to be.
    Comparison,
}

pub trait Stopwatch: Send + Sync {
    /// What `end` will be given.
    fn begin(&self) -> u64;

    fn end(&self, what: Work, begin: u64);

    /// Something was compiled, and stays until `Kind::sweep` finds that nobody uses it.
    fn compiled(&self) {}
}

/// Nobody wants to know.
#[derive(Clone, Copy, Debug)]
pub struct Unmeasured;

impl Stopwatch for Unmeasured {
    fn begin(&self) -> u64 {
        0
    }

    fn end(&self, _what: Work, _begin: u64) {}
}

impl Unmeasured {
    pub(super) fn shared() -> Arc<dyn Stopwatch> {
        Arc::new(Self)
    }
}

/// One sort of work.
pub(super) struct Of<'s>(pub(super) Work, pub(super) &'s dyn Stopwatch);

impl Laps for Of<'_> {
    fn begin(&self) -> u64 {
        self.1.begin()
    }

    fn end(&self, begin: u64) {
        self.1.end(self.0, begin);
    }
}
