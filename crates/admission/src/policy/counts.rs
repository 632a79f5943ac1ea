//! How often this thread has sorted, taken up and compiled policies, for tests that hold a write to
//! what it should cost. Counted in builds with debug assertions alone.

use std::cell::Cell;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Put where requests find them: all of them, once after a change of any.
    pub sorted: usize,
    /// Found for a request, and held against it.
    pub found: usize,
    pub compiled: usize,
}

thread_local! {
    static COUNTS: Cell<Counts> =
        const { Cell::new(Counts { sorted: 0, found: 0, compiled: 0 }) };
}

/// What was counted since the last call.
pub fn take() -> Counts {
    COUNTS.take()
}

pub(super) fn count(change: impl FnOnce(&mut Counts)) {
    if cfg!(debug_assertions) {
        let mut counts = COUNTS.get();
        change(&mut counts);
        COUNTS.set(counts);
    }
}
