//! How long rules take. Nothing here reads a clock: whoever has one measures.

use std::sync::Arc;

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// Of all rules of one version, when the first object comes that they are for.
    Compilation,
    /// Of all rules on one object.
    Evaluation,
    /// Of what an object was with what it is to be.
    Comparison,
}

pub trait Stopwatch: Send + Sync {
    /// Does the work, once.
    fn time(&self, what: Work, work: &mut dyn FnMut());

    /// Something was compiled, and stays until `Kind::sweep` finds that nobody uses it.
    fn compiled(&self) {}
}

/// Nobody wants to know.
#[derive(Clone, Copy, Debug)]
pub struct Unmeasured;

impl Stopwatch for Unmeasured {
    fn time(&self, _what: Work, work: &mut dyn FnMut()) {
        work();
    }
}

impl Unmeasured {
    pub(super) fn shared() -> Arc<dyn Stopwatch> {
        Arc::new(Self)
    }
}
