//! What a judgment is to somebody who wants to be told of it. Pure.

use std::time::Duration;

use serde_json::Value;

use super::judgment::{Annotation, Decision, Judgment};
use super::{Validations, denied, reason_of, warning};
use crate::observer::{By, Expression, Part, Refusal, micros};
use crate::policy::source::{Binding, Definition, OnFailure};

fn by(definition: &Definition<Validations>, binding: Option<&str>, params: &Value) -> By {
    By::Policy {
        resource: "validatingadmissionpolicies".to_owned(),
        name: definition.name.clone(),
        binding: binding.unwrap_or_default().to_owned(),
        param: crate::policy::params::name_of(params),
    }
}

/// It could not be asked.
pub(super) fn misconfigured(
    (definition, on_failure): (&Definition<Validations>, OnFailure),
    binding: Option<&str>,
    why: &str,
) -> Part {
    let mut part = Part::new(by(definition, binding, &Value::Null), 0);
    match on_failure.excuse() {
        None => {
            let (reason, code) = reason_of(None);
            let message = denied(&definition.name, binding, why);
            part.refusal = Some(Refusal { code, reason: reason.to_owned(), message });
        }
        Some(excuse) => part.note = Some(format!("{why} ({excuse})")),
    }
    part
}

/// What came of it by what the binding asks for.
pub(super) fn part(
    (definition, binding, params): (&Definition<Validations>, &Binding, &Value),
    judgment: &Judgment<'_>,
    elapsed: Duration,
) -> Part {
    let (policy, name) = (definition.name.as_str(), binding.name.as_str());
    let mut part = Part::new(by(definition, Some(name), params), micros(elapsed));
    part.cost = Some(judgment.cost);
    if judgment.is_skipped {
        part.note = Some("its matchConditions do not hold".to_owned());
        return part;
    }
    let has = |action: &str| binding.actions.iter().any(|it| it == action);
    for (decision, _) in &judgment.decisions {
        let Decision::Deny { message, reason } = decision else { continue };
        if has("Deny") {
            let (reason, code) = reason_of(reason.as_deref());
            let message = denied(policy, Some(name), message);
            let refusal = Refusal { code, reason: reason.to_owned(), message };
            part.refusal.get_or_insert(refusal);
        }
        if has("Warn") {
            part.warnings.push(warning(policy, name, message));
        }
    }
    for (key, annotation, _) in &judgment.annotations {
        if let Annotation::Value(value) = annotation {
            part.annotations.insert(format!("{policy}/{key}"), value.clone());
        }
    }
    part.expressions = expressions(definition, judgment);
    part
}

fn expressions(definition: &Definition<Validations>, judgment: &Judgment<'_>) -> Vec<Expression> {
    let told = |index: usize| match judgment.decisions.get(index) {
        Some((Decision::Deny { message, .. }, _)) => Some(message.clone()),
        Some((Decision::Ignored(why), _)) => Some(why.clone()),
        Some((Decision::Admit, _)) | None => None,
    };
    let validations = definition.rules.effect.validations.iter().enumerate();
    validations
        .map(|(index, it)| Expression {
            field: format!("spec.validations[{index}].expression"),
            text: it.expression.text.clone(),
            cost: judgment.costs.get(index).copied().unwrap_or_default(),
            message: told(index),
        })
        .collect()
}
