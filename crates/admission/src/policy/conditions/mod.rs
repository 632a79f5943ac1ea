//! `matchConditions`: expressions that say whether a webhook or a policy looks at a request.

pub(crate) mod metrics;

use std::sync::Arc;
use std::time::Duration;

use api::admissionregistration::expressions::{Returns, Sees};
use apimachinery::cel::CONDITIONS_BUDGET;
use apimachinery::cel::libraries::authz::Decisions;
use k8s_openapi::api::admissionregistration::v1::MatchCondition;
use serde_json::Value;
use tokio::time::Instant;

use super::evaluation::{Composition, Expression, Inputs, evaluate};
use super::request::{request_value, requested_resource, settle};
use crate::context::Context;
use crate::matching::Invocation;

const SEES: Sees = Sees { params: false, authorizer: true, patches: false };

/// What conditions come to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// All hold.
    Match,
    /// One does not, whatever the others come to.
    No,
    /// One could not be evaluated, and of the others none says no.
    Error(String),
}

/// The same, and what it took.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Judged {
    pub(crate) verdict: Verdict,
    pub(crate) cost: u64,
    /// Conditions that could not be evaluated, before the first that says no.
    pub(crate) n_errors: u64,
    pub(crate) elapsed: Duration,
}

impl Judged {
    fn unconditional() -> Self {
        Self { verdict: Verdict::Match, cost: 0, n_errors: 0, elapsed: Duration::ZERO }
    }
}

/// Conditions, compiled.
pub struct MatchConditions {
    expressions: Vec<Expression>,
    composition: Composition,
}

impl MatchConditions {
    /// Of a webhook.
    pub fn new(conditions: &[MatchCondition]) -> Self {
        let composition = Composition::none();
        let expressions = compile(conditions, &composition);
        Self { expressions, composition }
    }

    /// Of a policy, whose variables they see. To be evaluated with `judge`.
    pub(super) fn of_policy(conditions: &[MatchCondition], composition: &Composition) -> Self {
        let expressions = compile(conditions, composition);
        Self { expressions, composition: Composition::none() }
    }

    pub fn is_empty(&self) -> bool {
        self.expressions.is_empty()
    }

    /// On the objects as the webhook would see them.
    pub(crate) async fn evaluate(
        &self,
        context: &Context<'_>,
        invocation: (&apimachinery::GroupVersionResource, &apimachinery::GroupVersionKind),
        (object, old): (&Value, &Value),
    ) -> Judged {
        if self.expressions.is_empty() {
            return Judged::unconditional();
        }
        let begin = Instant::now();
        let (resource, kind) = (invocation.0.clone(), invocation.1.clone());
        let request = request_value(context, &Invocation { resource, kind });
        let decisions = Arc::new(Decisions::default());
        let asked = requested_resource(context);
        let judged = settle(context, &decisions, || {
            let inputs = Inputs {
                object,
                old,
                request: &request,
                namespace: &Value::Null,
                params: &Value::Null,
                authorizer: Some((&decisions, &asked)),
            };
            self.judge(&self.composition, &inputs)
        })
        .await;
        Judged { elapsed: begin.elapsed(), ..judged }
    }

    /// One that is false decides; errors do only if none is.
    pub(crate) fn judge(&self, composition: &Composition, inputs: &Inputs<'_>) -> Judged {
        if self.expressions.is_empty() {
            return Judged::unconditional();
        }
        let (begin, mut budget) = (Instant::now(), CONDITIONS_BUDGET);
        let (verdict, n_errors) = self.judge_within(composition, inputs, &mut budget);
        let cost = CONDITIONS_BUDGET - budget;
        Judged { verdict, cost, n_errors, elapsed: begin.elapsed() }
    }

    fn judge_within(
        &self,
        composition: &Composition,
        inputs: &Inputs<'_>,
        budget: &mut u64,
    ) -> (Verdict, u64) {
        let read = |value: &cel::Value<'_>| Ok(value.as_bool());
        let results = match evaluate(&self.expressions, composition, inputs, budget, read) {
            Ok(results) => results,
            // That the budget does not suffice is no error of a condition.
            Err(err) => return (Verdict::Error(err), 0),
        };
        let decisive = results.iter().position(|it| matches!(it.result, Ok(Some(false))));
        let looked_at = &results[..decisive.unwrap_or(results.len())];
        let errors: Vec<&String> =
            looked_at.iter().filter_map(|it| it.result.as_ref().err()).collect();
        let verdict = match (decisive, &errors[..]) {
            (Some(_), _) => Verdict::No,
            (None, []) => Verdict::Match,
            (None, [one]) => Verdict::Error((*one).clone()),
            (None, many) => {
                let all: Vec<&str> = many.iter().map(|it| it.as_str()).collect();
                Verdict::Error(format!("[{}]", all.join(", ")))
            }
        };
        (verdict, errors.len() as u64)
    }
}

fn compile(conditions: &[MatchCondition], composition: &Composition) -> Vec<Expression> {
    let compile = |it: &MatchCondition| composition.compile(&it.expression, SEES, Returns::Bool);
    conditions.iter().map(compile).collect()
}
