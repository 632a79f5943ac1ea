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

/// Evaluates each expression in order, and reads its value with `read`. What one comes to, or why
/// it comes to nothing; an error for all if the budget does not suffice.
pub(crate) fn evaluate<'e, T>(
    expressions: impl IntoIterator<Item = &'e Expression>,
    composition: &Composition,
    inputs: &Inputs<'_>,
    budget: &mut u64,
    read: impl Fn(&cel::Value<'_>) -> Result<T, String>,
) -> Result<Vec<Result<T, String>>, String> {
    let timed = evaluate_timed(expressions, composition, inputs, budget, read)?;
    Ok(timed.into_iter().map(|it| it.0).collect())
}

/// What one expression comes to, and how long that took.
pub(crate) type Timed<T> = (Result<T, String>, Duration);

/// The same, with how long each took.
pub(crate) fn evaluate_timed<'e, T>(
    expressions: impl IntoIterator<Item = &'e Expression>,
    composition: &Composition,
    inputs: &Inputs<'_>,
    budget: &mut u64,
    read: impl Fn(&cel::Value<'_>) -> Result<T, String>,
) -> Result<Vec<Timed<T>>, String> {
    let base = inputs.bind()?;
    let variables = Variables::new(&base, &composition.variables);
    let activation = variables.bind();
    let mut results = Vec::new();
    for expression in expressions {
        let program = match &expression.program {
            Ok(program) => program,
            Err(problem) => {
                let why = format!("compilation error: {}", problem.detail);
                results.push((Err(why), Duration::ZERO));
                continue;
            }
        };
        let begin = Instant::now();
        let evaluated = program.evaluate(activation, EVALUATION_BUDGET);
        let elapsed = begin.elapsed();
        let cost = evaluated.cost.saturating_add(variables.take_spent());
        *budget = budget.checked_sub(cost).ok_or_else(|| OUT_OF_BUDGET.to_owned())?;
        let result = match evaluated.result {
            Ok(value) => read(&value),
            Err(err) => Err(format!("expression '{}' resulted in error: {err}", expression.text)),
        };
        results.push((result, elapsed));
    }
    Ok(results)
}
