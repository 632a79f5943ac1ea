//! The door for fuzzers: whatever comes in, nothing may panic, hang or take more than its budget.
//! `typed` makes expressions that mean something.

pub mod forms;
#[cfg(test)]
mod tests;
pub mod typed;

use std::sync::LazyLock;

use crate::{AnySize, Bindings, Env, Error, UNTYPED, from_json};

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

/// Compiles and evaluates the expression of a seed, on its values.
pub fn typed_expression(seed: u64) {
    static GENERATOR: LazyLock<typed::Generator> = LazyLock::new(typed::Generator::default);
    let variables = || GENERATOR.variables().iter();
    let declare = |env: Env, (name, it): &(String, crate::Type)| env.variable(name, it.clone());
    let case = GENERATOR.case(seed);
    let compiled = variables().fold(Env::extended(), declare).compile(&case.text);
    let checked = match compiled {
        Ok(checked) => checked,
        Err(_) if case.is_wrong => return,
        Err(issues) => panic!("{}: {issues}", case.text),
    };
    let Ok(program) = checked.program() else { return };
    let bindings = variables().zip(&case.values).fold(Bindings::new(), |all, ((name, _), json)| {
        all.with(name, from_json(json, &UNTYPED).expect("JSON without a shape"))
    });
    let evaluated = program.evaluate(&bindings, BUDGET);
    let is_refused = matches!(evaluated.result, Err(Error::CostExceeded));
    assert!(is_refused || evaluated.cost <= BUDGET, "a result has a cost within the budget");
}
