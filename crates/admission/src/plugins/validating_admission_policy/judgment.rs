//! What the expressions of a policy come to for one request and one parameter. Pure.

use std::time::Duration;

use apimachinery::cel::OBJECT_BUDGET;

use super::{Validation, Validations};
use crate::policy::conditions::{Judged, Verdict};
use crate::policy::evaluation::{Expression, Inputs, Outcome, evaluate};
use crate::policy::source::{Definition, OnFailure};

/// Longer messages are not used.
const MESSAGE_BYTES_MAX: usize = 5 * 1024;

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Decision {
    Admit,
    /// It could not be evaluated, which counts as agreement.
    Ignored(String),
    Deny {
        message: String,
        reason: Option<String>,
    },
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Annotation {
    Value(String),
    /// The expression says that there is nothing to note.
    None,
    Error(String),
}

/// With how long it took.
type Decided = (Decision, Duration);

#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Judgment<'d> {
    /// One for each validation; or one for all if they could not be evaluated. One more if only what
    /// is to be noted could not.
    pub(super) decisions: Vec<Decided>,
    pub(super) annotations: Vec<(&'d str, Annotation, Duration)>,
    /// Of each validation, without its message.
    pub(super) costs: Vec<u64>,
    /// Of everything: conditions, validations, messages, annotations.
    pub(super) cost: u64,
    /// `matchConditions` do not hold.
    pub(super) is_skipped: bool,
    /// How they were judged, if there are any.
    pub(super) matching: Option<Judged>,
}

impl Judgment<'_> {
    fn failed(on_failure: OnFailure, message: String, cost: u64) -> Self {
        let decisions = vec![(Decision::failed(on_failure, message), Duration::ZERO)];
        Self { decisions, cost, ..Self::default() }
    }

    fn skipped(cost: u64) -> Self {
        Self { cost, is_skipped: true, ..Self::default() }
    }
}

impl Decision {
    fn failed(on_failure: OnFailure, message: String) -> Self {
        match on_failure {
            OnFailure::Deny => Self::Deny { message, reason: None },
            OnFailure::Ignore | OnFailure::Spare => Self::Ignored(message),
        }
    }
}

/// A policy, and what happens to the request where it cannot be evaluated.
#[derive(Clone, Copy)]
pub(super) struct Policy<'d> {
    pub(super) definition: &'d Definition<Validations>,
    pub(super) on_failure: OnFailure,
}

pub(super) fn judge<'d>(policy: Policy<'d>, inputs: &Inputs<'_>) -> Judgment<'d> {
    let Policy { definition, on_failure } = policy;
    let nowhere = Inputs { namespace: &serde_json::Value::Null, ..*inputs };
    let rules = &definition.rules;
    let judged = rules.conditions.judge(&rules.composition, &nowhere);
    let cost = judged.cost;
    let judgment = match &judged.verdict {
        Verdict::Match => decide_all(policy, inputs, cost),
        Verdict::No => Judgment::skipped(cost),
        Verdict::Error(_) if on_failure == OnFailure::Ignore => Judgment::skipped(cost),
        Verdict::Error(why) => Judgment::failed(on_failure, why.clone(), cost),
    };
    Judgment { matching: Some(judged).filter(|_| !rules.conditions.is_empty()), ..judgment }
}

/// What is for the request, with what it cost to tell that.
fn decide_all<'d>(policy: Policy<'d>, inputs: &Inputs<'_>, matching: u64) -> Judgment<'d> {
    let on_failure = policy.on_failure;
    let (mut deciding, mut annotating) = (OBJECT_BUDGET, OBJECT_BUDGET);
    let decided = decide(policy, inputs, &mut deciding);
    let cost = matching + OBJECT_BUDGET - deciding;
    let (mut decisions, costs) = match decided {
        Ok(decided) => decided,
        Err(why) => return Judgment::failed(on_failure, why, cost),
    };
    let annotated = annotate(policy, inputs, &mut annotating);
    let cost = cost + OBJECT_BUDGET - annotating;
    let annotations = match annotated {
        Ok(annotations) => annotations,
        // What is spared is spared what is not known: a no that is known holds.
        Err(why) if on_failure == OnFailure::Spare => {
            decisions.push((Decision::Ignored(why), Duration::ZERO));
            Vec::new()
        }
        Err(why) => return Judgment::failed(on_failure, why, cost),
    };
    Judgment { decisions, annotations, costs, cost, ..Judgment::default() }
}

/// With what each validation cost. Messages are made with what is left of the budget, without asking the authorizer.
fn decide(
    Policy { definition, on_failure }: Policy<'_>,
    inputs: &Inputs<'_>,
    budget: &mut u64,
) -> Result<(Vec<Decided>, Vec<u64>), String> {
    let composition = &definition.rules.composition;
    let validations = &definition.rules.effect.validations;
    let expressions = validations.iter().map(|it| &it.expression);
    let read = |value: &cel::Value<'_>| Ok(value.as_bool());
    let results = evaluate(expressions, composition, inputs, budget, read)?;
    let costs = results.iter().map(|it| it.cost).collect();

    let silent = Inputs { authorizer: None, ..*inputs };
    let expressions = validations.iter().filter_map(|it| it.message_expression.as_ref());
    let read = |value: &cel::Value<'_>| Ok(value.as_str().map(str::to_owned));
    let messages = evaluate(expressions, composition, &silent, budget, read);
    let mut messages = match messages {
        Ok(messages) => Ok(messages.into_iter()),
        Err(err) => Err(err),
    };
    let mut decide = |validation: &Validation, result: Result<Option<bool>, String>| {
        let own = match (&mut messages, &validation.message_expression) {
            (Ok(messages), Some(_)) => messages.next().and_then(|it| it.result.ok()).flatten(),
            _ => None,
        };
        match (result, &messages) {
            (Err(why), _) => Decision::failed(on_failure, why),
            (Ok(_), Err(why)) if on_failure != OnFailure::Spare => {
                Decision::failed(on_failure, format!("failed messageExpression: {why}"))
            }
            (Ok(Some(true)), _) => Decision::Admit,
            (Ok(_), _) => Decision::Deny {
                message: message(validation, own),
                reason: Some(validation.reason.clone().unwrap_or_else(|| "Invalid".to_owned())),
            },
        }
    };
    let both = validations.iter().zip(results);
    let decisions = both.map(|(it, outcome)| (decide(it, outcome.result), outcome.elapsed));
    Ok((decisions.collect(), costs))
}

/// The one that was made, else the one that was written, else the expression.
fn message(validation: &Validation, own: Option<String>) -> String {
    let own = own.unwrap_or_default();
    let own = own.trim();
    if !own.is_empty() && own.len() <= MESSAGE_BYTES_MAX && !own.contains('\n') {
        return own.to_owned();
    }
    let written = validation.message.trim();
    if !written.is_empty() {
        return written.to_owned();
    }
    format!("failed expression: {}", validation.expression.text.trim())
}

fn annotate<'d>(
    Policy { definition, on_failure }: Policy<'d>,
    inputs: &Inputs<'_>,
    budget: &mut u64,
) -> Result<Vec<(&'d str, Annotation, Duration)>, String> {
    let silent = Inputs { authorizer: None, ..*inputs };
    let annotations = &definition.rules.effect.annotations;
    let read = |value: &cel::Value<'_>| {
        Ok(match value {
            cel::Value::String(text) if text.trim().is_empty() => Annotation::None,
            cel::Value::String(text) => Annotation::Value(text.trim().to_owned()),
            cel::Value::Null => Annotation::None,
            other => Annotation::Error(other.type_name().to_owned()),
        })
    };
    let expressions = annotations.iter().map(|it| &it.1);
    let composition = &definition.rules.composition;
    let results = evaluate(expressions, composition, &silent, budget, read)?;
    let all = annotations.iter().zip(results);
    let read = |((key, expression), outcome): (&'d (String, Expression), Outcome<Annotation>)| {
        let annotation = match outcome.result {
            Ok(Annotation::Error(got)) => Annotation::Error(format!(
                "valueExpression '{}' resulted in unsupported return type: {got}. Return type must \
                 be either string or null.",
                expression.text
            )),
            Ok(annotation) => annotation,
            Err(_) if on_failure == OnFailure::Ignore => Annotation::None,
            Err(why) => Annotation::Error(why),
        };
        (key.as_str(), annotation, outcome.elapsed)
    };
    Ok(all.map(read).collect())
}
