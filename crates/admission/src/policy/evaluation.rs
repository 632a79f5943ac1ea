//! The evaluation of a group of expressions of a policy with one budget. Pure.

use std::sync::Arc;
use std::time::Duration;

use api::admissionregistration::expressions::{Compiler, Problem, Returns, Sees};
use apimachinery::cel::EVALUATION_BUDGET;
use apimachinery::cel::libraries::authz::{self, Decisions, Resource};
use cel::{Bindings, Program, UNTYPED, from_json};
use k8s_openapi::api::admissionregistration::v1::Variable;
use serde_json::Value as Json;
use tokio::time::Instant;

use super::variables::Variables;

/// What is said when the budget of a group is used up.
pub(super) const OUT_OF_BUDGET: &str = "validation failed due to running out of cost budget, no further \
                             validation rules will be run";

/// An expression, compiled. One that does not compile fails when it is evaluated: it was stored by
/// a server that knew more or checked less.
pub(crate) struct Expression {
    pub(crate) text: String,
    pub(super) program: Result<Program, Problem>,
}

impl Expression {
    /// Why it does not compile.
    pub(crate) fn problem(&self) -> Option<&str> {
        self.program.as_ref().err().map(|it| it.detail.as_str())
    }
}

/// The variables of a policy, and what its expressions see.
pub(crate) struct Composition {
    compiler: Compiler,
    has_params: bool,
    variables: Vec<(String, Expression)>,
}

impl Composition {
    pub(crate) fn new(variables: &[Variable], has_params: bool) -> Self {
        let mut compiler = Compiler::with_variables();
        let sees = Sees { params: has_params, authorizer: true, patches: false };
        let mut compiled = Vec::new();
        for Variable { name, expression } in variables {
            let program = compiler.declare(name, expression, sees);
            compiled.push((name.clone(), Expression { text: expression.clone(), program }));
        }
        Self { compiler, has_params, variables: compiled }
    }

    /// Without parameters and variables, as webhooks have it.
    pub(super) fn none() -> Self {
        Self { compiler: Compiler::default(), has_params: false, variables: Vec::new() }
    }

    /// `sees.params` is for the policy to say.
    pub(crate) fn compile(&self, text: &str, sees: Sees, returns: Returns) -> Expression {
        let sees = Sees { params: self.has_params, ..sees };
        let program = self.compiler.compile(text, sees, returns);
        Expression { text: text.to_owned(), program }
    }
}

/// What expressions are evaluated on.
pub(crate) struct Inputs<'a> {
    pub(crate) object: &'a Json,
    pub(crate) old: &'a Json,
    pub(crate) request: &'a Json,
    pub(crate) namespace: &'a Json,
    pub(crate) params: &'a Json,
    /// Missing where expressions may not ask.
    pub(crate) authorizer: Option<(&'a Arc<Decisions>, &'a Resource)>,
}

impl<'a> Inputs<'a> {
    fn bind(&self) -> Result<Bindings<'a>, String> {
        let value = |json: &'a Json| from_json(json, &UNTYPED).map_err(|err| err.to_string());
        let mut all = Bindings::new()
            .with("object", value(self.object)?)
            .with("oldObject", value(self.old)?)
            .with("request", value(self.request)?)
            .with("namespaceObject", value(self.namespace)?)
            .with("params", value(self.params)?);
        if let Some((decisions, resource)) = self.authorizer {
            let resource = authz::request_resource(decisions, resource.clone());
            all = all
                .with("authorizer", authz::authorizer(decisions))
                .with("authorizer.requestResource", resource);
        }
        Ok(all)
    }
}

/// What one expression comes to, or why it comes to nothing.
pub(crate) struct Outcome<T> {
    pub(crate) result: Result<T, String>,
    /// With the variables that it was the first to ask for.
    pub(crate) cost: u64,
    pub(crate) elapsed: Duration,
}

/// Evaluates each expression in order, and reads its value with `read`; an error for all if the
/// budget does not suffice, which is used up then.
pub(crate) fn evaluate<'e, T>(
    expressions: impl IntoIterator<Item = &'e Expression>,
    composition: &Composition,
    inputs: &Inputs<'_>,
    budget: &mut u64,
    read: impl Fn(&cel::Value<'_>) -> Result<T, String>,
) -> Result<Vec<Outcome<T>>, String> {
    let mut expressions = expressions.into_iter().peekable();
    if expressions.peek().is_none() {
        return Ok(Vec::new());
    }
    let base = inputs.bind()?;
    let variables = Variables::new(&base, &composition.variables);
    let activation = variables.bind();
    let mut results = Vec::new();
    for expression in expressions {
        let program = match &expression.program {
            Ok(program) => program,
            Err(problem) => {
                let result = Err(format!("compilation error: {}", problem.detail));
                results.push(Outcome { result, cost: 0, elapsed: Duration::ZERO });
                continue;
            }
        };
        let begin = Instant::now();
        let evaluated = program.evaluate(activation, EVALUATION_BUDGET);
        let elapsed = begin.elapsed();
        let cost = evaluated.cost.saturating_add(variables.take_spent());
        let Some(left) = budget.checked_sub(cost) else {
            *budget = 0;
            return Err(OUT_OF_BUDGET.to_owned());
        };
        *budget = left;
        let result = match evaluated.result {
            Ok(value) => read(&value),
            Err(err) => Err(format!("expression '{}' resulted in error: {err}", expression.text)),
        };
        results.push(Outcome { result, cost, elapsed });
    }
    Ok(results)
}
