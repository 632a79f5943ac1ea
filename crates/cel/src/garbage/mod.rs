//! The door for fuzzers: whatever comes in, nothing may panic, hang or take more than its budget.
//! `typed` makes expressions that mean something.

pub mod forms;
#[cfg(test)]
mod tests;
pub mod typed;

use std::sync::LazyLock;

use crate::{AnySize, Bindings, Env, Error, Program, UNTYPED, from_json, work};

/// So that one input takes a moment at most.
const BUDGET: u64 = 100_000;
/// A call goes on for as long as its arguments are, which are bounded, before anybody looks.
const LAST_CALL: u64 = 4_000_000;

/// Compiles, estimates and evaluates a text.
pub fn expression(text: &str) {
    let Ok(checked) = Env::extended().compile(text) else { return };
    let estimate = checked.estimate(&AnySize);
    assert!(estimate.min <= estimate.max, "an estimate is a range");
    let Ok(program) = checked.program() else { return };
    evaluate(text, &program, &Bindings::new());
}

/// What it costs and how many steps it takes: the time that it takes is in proportion to its cost,
/// and a refusal comes before it is out of proportion to the budget.
fn evaluate<'a>(text: &str, program: &'a Program, variables: &Bindings<'a>) -> (u64, u64) {
    let before = work::taken();
    let evaluated = program.evaluate(variables, BUDGET);
    let (cost, steps) = (evaluated.cost, work::taken() - before);
    match evaluated.result {
        Err(Error::CostExceeded) => {
            assert!(steps <= work::most_for(BUDGET) + LAST_CALL, "{text}: {steps} steps");
        }
        _ => {
            assert!(cost <= BUDGET, "a result has a cost within the budget");
            assert!(steps <= work::most_for(cost), "{text}: {steps} steps for {cost}");
        }
    }
    (cost, steps)
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
    let (cost, steps) = evaluate(&case.text, &program, &bindings);
    // What means something is far from its allowance.
    assert!(steps <= work::most_for(0) + cost, "{}: {steps} steps for {cost}", case.text);
}
