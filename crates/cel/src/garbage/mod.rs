//! The door for fuzzers: whatever comes in, nothing may panic, hang or take more than its budget.
//! `typed` makes expressions that mean something.

pub mod forms;
#[cfg(test)]
mod tests;
pub mod typed;

use crate::{AnySize, Bindings, Env, Error};

/// So that one input takes a moment at most.
const BUDGET: u64 = 100_000;

/// Compiles, estimates and evaluates a text.
pub fn expression(text: &str) {
    let Ok(checked) = Env::extended().compile(text) else { return };
    let estimate = checked.estimate(&AnySize);
    assert!(estimate.min <= estimate.max, "an estimate is a range");
    let Ok(program) = checked.program() else { return };
    let evaluated = program.evaluate(&Bindings::new(), BUDGET);
    let is_refused = matches!(evaluated.result, Err(Error::CostExceeded));
    assert!(is_refused || evaluated.cost <= BUDGET, "a result has a cost within the budget");
}
