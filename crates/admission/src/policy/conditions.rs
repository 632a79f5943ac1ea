//! `matchConditions`: expressions that say whether a webhook or a policy looks at a request.

use std::sync::Arc;

use api::admissionregistration::expressions::{Returns, Sees};
use apimachinery::cel::CONDITIONS_BUDGET;
use apimachinery::cel::libraries::authz::Decisions;
use k8s_openapi::api::admissionregistration::v1::MatchCondition;
use serde_json::Value;

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
    pub async fn evaluate(
        &self,
        context: &Context<'_>,
        invocation: (&apimachinery::GroupVersionResource, &apimachinery::GroupVersionKind),
        (object, old): (&Value, &Value),
    ) -> Verdict {
        if self.expressions.is_empty() {
            return Verdict::Match;
        }
        let (resource, kind) = (invocation.0.clone(), invocation.1.clone());
        let request = request_value(context, &Invocation { resource, kind });
        let decisions = Arc::new(Decisions::default());
        let asked = requested_resource(context);
        settle(context, &decisions, || {
            let inputs = Inputs {
                object,
                old,
                request: &request,
                namespace: &Value::Null,
                params: &Value::Null,
                authorizer: Some((&decisions, &asked)),
            };
            self.judge(&self.composition, &inputs).0
        })
        .await
    }

    /// One that is false decides; errors do only if none is. With what it cost.
    pub(crate) fn judge(&self, composition: &Composition, inputs: &Inputs<'_>) -> (Verdict, u64) {
        if self.expressions.is_empty() {
            return (Verdict::Match, 0);
        }
        let mut budget = CONDITIONS_BUDGET;
        let verdict = self.judge_within(composition, inputs, &mut budget);
        (verdict, CONDITIONS_BUDGET - budget)
    }

    fn judge_within(
        &self,
        composition: &Composition,
        inputs: &Inputs<'_>,
        budget: &mut u64,
    ) -> Verdict {
        let read = |value: &cel::Value<'_>| Ok(value.as_bool());
        let results = match evaluate(&self.expressions, composition, inputs, budget, read) {
            Ok(results) => results,
            Err(err) => return Verdict::Error(err),
        };
        if results.iter().any(|it| matches!(it.result, Ok(Some(false)))) {
            return Verdict::No;
        }
        let errors: Vec<String> = results.into_iter().filter_map(|it| it.result.err()).collect();
        match &errors[..] {
            [] => Verdict::Match,
            [one] => Verdict::Error(one.clone()),
            many => Verdict::Error(format!("[{}]", many.join(", "))),
        }
    }
}

fn compile(conditions: &[MatchCondition], composition: &Composition) -> Vec<Expression> {
    let compile = |it: &MatchCondition| composition.compile(&it.expression, SEES, Returns::Bool);
    conditions.iter().map(compile).collect()
}
