//! What evaluation does beyond what it costs. Costs are upstream's, and some of what they hardly count
//! takes long: equality goes by the elements of the outermost list, constants and `&&` are free,
//! also in the innermost of loops. So steps are counted too, and beyond an allowance they count as
//! cost: the time of an evaluation is in proportion to what it is said to cost.

use std::cell::Cell;

use crate::error::Error;

/// Steps that nobody pays for: most evaluations take fewer.
const FREE: u64 = 10_000;
/// So many steps are worth one unit of cost. Expressions that mean something take a few.
const PER_UNIT: u64 = 64;

thread_local! {
    static TAKEN: Cell<u64> = const { Cell::new(0) };
    static MOST: Cell<u64> = const { Cell::new(u64::MAX) };
}

/// The steps of one evaluation on this thread, which may be inside another one.
pub(crate) struct Steps {
    taken_before: u64,
    most_before: u64,
}

impl Steps {
    /// Steps of an evaluation with this budget begin. Who is around has its own bound too.
    pub(crate) fn begin(budget: u64) -> Self {
        let (taken_before, most_before) = (TAKEN.get(), MOST.get());
        let own = budget.saturating_mul(PER_UNIT).saturating_add(FREE).saturating_add(taken_before);
        MOST.set(own.min(most_before));
        Self { taken_before, most_before }
    }

    /// What was taken since, as cost.
    pub(crate) fn cost(&self) -> u64 {
        (TAKEN.get() - self.taken_before).saturating_sub(FREE) / PER_UNIT
    }
}

impl Drop for Steps {
    fn drop(&mut self) {
        MOST.set(self.most_before);
    }
}

/// All that were taken on this thread.
pub(crate) fn taken() -> u64 {
    TAKEN.get()
}

/// The most that go with a cost.
pub(crate) fn most_for(cost: u64) -> u64 {
    // What is left of the last unit is not paid for.
    cost.saturating_add(1).saturating_mul(PER_UNIT).saturating_add(FREE)
}

/// Counts steps; an error when there were too many.
pub(crate) fn take(n: usize) -> Result<(), Error> {
    note(n);
    if TAKEN.get() > MOST.get() { Err(Error::CostExceeded) } else { Ok(()) }
}

/// Counts steps, for whoever takes the next to look at.
pub(crate) fn note(n: usize) {
    TAKEN.set(TAKEN.get().saturating_add(n as u64));
}

/// Steps that going over so many bytes is.
pub(crate) fn of_bytes(n: usize) -> usize {
    n / 64
}

#[cfg(test)]
mod tests {
    //! Time in proportion to cost, by steps: whatever is done in them is counted, and paid for.

    use serde_json::{Value as Json, json};

    use super::*;
    use crate::garbage::typed::Generator;
    use crate::{Bindings, Env, Evaluated, Type, UNTYPED, from_json};

    const BUDGET: u64 = 100_000;

    /// What an expression over `self` comes to, and the steps that it took.
    fn evaluate(text: &str, json: &Json) -> (Result<String, Error>, u64, u64) {
        let env = Env::extended().variable("self", Type::Dyn);
        let program = env.compile(text).unwrap_or_else(|err| panic!("{err}")).program().unwrap();
        let variables = Bindings::new().with("self", from_json(json, &UNTYPED).unwrap());
        let before = TAKEN.get();
        let Evaluated { result, cost } = program.evaluate(&variables, BUDGET);
        (result.map(|it| it.to_string()), cost, TAKEN.get() - before)
    }

    /// Each does much for what upstream counts as little.
    #[test]
    fn what_costs_little_and_takes_long_is_stopped() {
        let many = |n: usize| (0..n).collect::<Vec<_>>();
        let nested: Vec<_> = (0..4).map(|_| many(2_000)).collect();
        let map: Json =
            (0..2_000).map(|n| (n.to_string(), json!(n))).collect::<serde_json::Map<_, _>>().into();
        let text = "x".repeat(1 << 20);
        let json = json!({
            "a": nested, "b": nested, "map": map, "text": text, "list": many(5_000),
            "patterns": ["(a{300}){300}", "a"],
        });
        let free = vec!["true"; 2_000].join(" && ");
        let rows = [
            // Constants and `&&` are free.
            format!("lists.range(20000).all(x, {free})"),
            // Equality goes by the elements of the outermost list.
            "lists.range(10000).all(x, self.a == self.b)".to_owned(),
            "self.a in lists.range(20000).map(x, self.b + [x])".to_owned(),
            // The size of a map or a text costs one.
            "lists.range(10000).all(x, self.map.size() > 0)".to_owned(),
            "lists.range(10000).all(x, self.text.size() > 0)".to_owned(),
            "lists.range(10000).all(x, size(self.list + self.list) > 0)".to_owned(),
            // A pattern that is no constant is compiled each time.
            "lists.range(9000).all(x, !'b'.matches(self.patterns[0]))".to_owned(),
        ];
        for text in rows {
            let (result, cost, steps) = evaluate(&text, &json);
            let shown = &text[..text.len().min(80)];
            assert_eq!(result, Err(Error::CostExceeded), "{shown}: cost {cost}, {steps} steps");
            // The last call may go on for as long as its arguments are.
            let most = FREE + PER_UNIT * BUDGET + 4_000_000;
            assert!(steps < most, "{shown}: {steps} steps");
        }
    }

    #[test]
    fn what_means_something_is_within_its_allowance() {
        let generator = Generator::default();
        let variables = generator.variables().iter();
        let env = variables.fold(Env::extended(), |env, (name, it)| env.variable(name, it.clone()));
        for seed in 0..2_000 {
            let case = generator.case(seed);
            let Ok(checked) = env.compile(&case.text) else { continue };
            let program = checked.program_unfolded().unwrap();
            let named = generator.variables().iter().zip(&case.values);
            let bindings = named.fold(Bindings::new(), |all, ((name, _), json)| {
                all.with(name, from_json(json, &UNTYPED).unwrap())
            });
            let before = TAKEN.get();
            let evaluated = program.evaluate(&bindings, u64::MAX);
            let steps = TAKEN.get() - before;
            assert!(steps <= FREE + evaluated.cost, "{}: {steps} {}", case.text, evaluated.cost);
        }
    }

    #[test]
    fn an_evaluation_inside_another_has_its_own_count_and_both_bounds() {
        let outer = Steps::begin(1_000);
        note(usize::try_from(FREE + PER_UNIT * 10).unwrap());
        assert_eq!(outer.cost(), 10);
        {
            let inner = Steps::begin(u64::MAX);
            assert_eq!(inner.cost(), 0);
            take(1_000).unwrap();
            take(usize::try_from(PER_UNIT * 1_000).unwrap()).unwrap_err();
        }
        assert!(outer.cost() > 1_000);
        drop(outer);
        take(usize::MAX / 2).unwrap();
    }
}
