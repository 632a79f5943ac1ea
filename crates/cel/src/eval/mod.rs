//! Evaluation: a compact tree made from the checked one (`plan`), and a walk over it that counts
//! what it costs (`run`).

mod activation;
mod plan;
mod run;

#[cfg(test)]
mod tests;

use std::sync::Arc;

pub use activation::{Activation, Bindings};
pub(crate) use plan::{Folding, plan};

use crate::env::{Overload, Prepared, RuntimeCost, TypeProvider};
use crate::error::Error;
use crate::value::{NativeMap, Value};
use crate::work;

/// An expression that is ready to be evaluated, any number of times and by any number of threads.
#[derive(Debug, Clone)]
pub struct Program {
    root: Node,
    n_locals: usize,
    provider: Arc<dyn TypeProvider>,
}

/// The outcome of an evaluation and what it cost, also if it failed.
#[derive(Debug, Clone)]
pub struct Evaluated<'a> {
    pub result: Result<Value<'a>, Error>,
    pub cost: u64,
}

impl Program {
    /// Evaluates with these variables. More than `budget` units of cost is `Error::CostExceeded`, and
    /// so is what takes far longer than its cost tells (`work`).
    pub fn evaluate<'a>(&'a self, activation: &dyn Activation<'a>, budget: u64) -> Evaluated<'a> {
        let steps = work::Steps::begin(budget);
        let mut frame = run::Frame::new(self, activation, budget);
        let result = frame.eval(&self.root);
        let cost = frame.cost().max(steps.cost());
        let result = if cost > budget { Err(Error::CostExceeded) } else { result };
        Evaluated { result, cost }
    }
}

/// A step of evaluation. What each charges beside its parts is said in `run`.
#[derive(Debug, Clone)]
enum Node {
    Constant(Value<'static>),
    Variable {
        name: Arc<str>,
        charge: u64,
    },
    Local {
        slot: usize,
        charge: u64,
    },
    Select(Box<Select>),
    Has {
        operand: Box<Self>,
        field: Arc<str>,
    },
    Index(Box<Index>),
    And(Box<[Self; 2]>),
    Or(Box<[Self; 2]>),
    Conditional(Box<[Self; 3]>),
    NotStrictlyFalse(Box<Self>),
    Not(Box<Self>),
    Equals {
        sides: Box<[Self; 2]>,
        negated: bool,
    },
    /// `or` and `orValue`, which look at the right side only if they must.
    OptionalOr {
        sides: Box<[Self; 2]>,
        unwraps: bool,
    },
    /// `in` a constant list of primitive values.
    InSet {
        value: Box<Self>,
        set: Arc<NativeMap<'static>>,
    },
    Call(Box<Call>),
    List(Vec<Element>),
    Map(Vec<MapEntry>),
    Struct {
        name: Arc<str>,
        fields: Vec<(Arc<str>, Element)>,
    },
    Fold(Box<Fold>),
    Bind(Box<Bind>),
    /// The accumulator with one element more.
    Append {
        slot: usize,
        element: Box<Self>,
    },
    /// The accumulator with one entry more, or with those of a map.
    Insert {
        slot: usize,
        key: Option<Box<Self>>,
        value: Box<Self>,
    },
}

#[derive(Debug, Clone)]
struct Select {
    operand: Node,
    field: Arc<str>,
    is_optional: bool,
    /// 1 if the operand is no path of its own, which upstream counts as another step.
    extra: u64,
}

#[derive(Debug, Clone)]
struct Index {
    operand: Node,
    index: Node,
    is_optional: bool,
    own: u64,
    /// As that of `Select`.
    extra: u64,
}

#[derive(Debug, Clone)]
struct Call {
    name: Arc<str>,
    /// Those that the checker left.
    overloads: Vec<Arc<Overload>>,
    args: Vec<Node>,
    prepared: Option<PreparedCall>,
    /// If the cost does not depend on which overload it is.
    cost: Option<RuntimeCost>,
}

#[derive(Clone)]
struct PreparedCall(Prepared);

impl std::fmt::Debug for PreparedCall {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str("PreparedCall")
    }
}

#[derive(Debug, Clone)]
struct Element {
    node: Node,
    is_optional: bool,
}

#[derive(Debug, Clone)]
struct MapEntry {
    key: Node,
    value: Element,
}

/// Slots: the accumulator at `slot`, then the variables.
#[derive(Debug, Clone)]
struct Fold {
    range: Node,
    init: Node,
    condition: Node,
    step: Node,
    result: Node,
    slot: usize,
    has_two: bool,
    /// The condition is `true`: once the accumulator is an error it stays one.
    is_unconditional: bool,
}

/// A value with a name, computed when it is first used.
#[derive(Debug, Clone)]
struct Bind {
    range: Node,
    init: Node,
    result: Node,
    slot: usize,
}
