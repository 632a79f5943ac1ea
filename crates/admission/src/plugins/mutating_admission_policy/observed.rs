//! What one policy does to the object, for whoever wants to be told of it. Where nobody does it is
//! one look at that.

use serde_json::Value;
use tokio::time::Instant;

use super::{Case, Mutation, denied};
use crate::context::Context;
use crate::observer::{By, Expression, Observer, Part, Refusal, diff, micros};
use crate::policy::params;

/// Nothing in requests that nobody observes.
pub(super) struct Watched<'a>(Option<Seen<'a>>);

struct Seen<'a> {
    observer: &'a Observer,
    begin: Instant,
    before: Option<Value>,
    cost: u64,
    expressions: Vec<Expression>,
    problem: Option<String>,
}

impl<'a> Watched<'a> {
    pub(super) fn begin(context: &Context<'a>) -> Self {
        Self(context.observer().map(|observer| Seen {
            observer,
            begin: Instant::now(),
            before: context.draft().map(|it| it.tree().clone()),
            cost: 0,
            expressions: Vec::new(),
            problem: None,
        }))
    }

    pub(super) fn spent(&mut self, cost: u64) {
        if let Some(seen) = &mut self.0 {
            seen.cost += cost;
        }
    }

    pub(super) fn failed(&mut self, why: &str) {
        if let Some(seen) = &mut self.0 {
            seen.problem.get_or_insert_with(|| why.to_owned());
        }
    }

    pub(super) fn evaluated(
        &mut self,
        index: usize,
        mutation: &Mutation,
        cost: u64,
        problem: Option<&String>,
    ) {
        let Some(seen) = &mut self.0 else { return };
        let (form, expression) = match mutation {
            Mutation::Apply(expression) => ("applyConfiguration", expression),
            Mutation::JsonPatch(expression) => ("jsonPatch", expression),
        };
        seen.cost += cost;
        seen.expressions.push(Expression {
            field: format!("spec.mutations[{index}].{form}.expression"),
            text: expression.text.clone(),
            cost,
            message: problem.cloned(),
        });
        if let Some(why) = problem {
            self.failed(why);
        }
    }

    pub(super) fn skipped(self, context: &Context<'_>, case: &Case) {
        let note = "its matchConditions do not hold".to_owned();
        self.tell(context, case, Some(note));
    }

    pub(super) fn end(self, context: &Context<'_>, case: &Case) {
        self.tell(context, case, None);
    }

    fn tell(self, context: &Context<'_>, case: &Case, note: Option<String>) {
        let Some(seen) = self.0 else { return };
        let (policy, binding) = (&case.definition.name, &case.binding.name);
        let by = By::Policy {
            resource: "mutatingadmissionpolicies".to_owned(),
            name: policy.clone(),
            binding: binding.clone(),
            param: case.params.as_deref().and_then(params::name_of),
        };
        let mut part = Part::new(by, micros(seen.begin.elapsed()));
        part.cost = Some(seen.cost);
        part.note = note;
        part.expressions = seen.expressions;
        if let (Some(before), Some(draft)) = (&seen.before, context.draft()) {
            (part.changes, part.n_changes_left_out) = diff(before, draft.tree());
        }
        let excuse = case.definition.on_failure(&context.request).excuse();
        match (seen.problem, excuse) {
            (Some(why), None) => {
                let message = denied(policy, Some(binding), &why);
                let reason = "Invalid".to_owned();
                part.refusal = Some(Refusal { code: 403, reason, message });
            }
            (Some(why), Some(excuse)) => part.note = Some(format!("{why} ({excuse})")),
            (None, _) => {}
        }
        seen.observer.part(part);
    }
}
