//! How long rules take. Nothing here reads a clock: whoever has one measures.

use std::sync::Arc;

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// Of all rules of one version, when the first object comes that they are for.
    Compilation,
    /// Of all rules on one object.
    Evaluation,
}

pub trait Stopwatch: Send + Sync {
    /// Does the work, once.
    fn time(&self, what: Work, work: &mut dyn FnMut());
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
