//! Whether an object is as its definition says: values first, then, if those leave nothing to be
//! desired, the rules. On updates only what changed is held against the author's words.

use apimachinery::cel::OBJECT_BUDGET;
use apimachinery::cel::rules::Before;
use apimachinery::field::Cause;
use apimachinery::schema::{Correlated, Ratchet};
use apimachinery::{FieldErrors, Path};
use serde_json::Value;

use super::CustomKind;
use super::stopwatch::{Of, Work};
use crate::kind::Part;

impl CustomKind {
    /// `stored` is what the object was, and which part of it is written.
    pub(super) fn judge(
        &self,
        object: &Value,
        stored: Option<(&Value, Part)>,
        errors: &mut FieldErrors,
    ) {
        let (root, own) = (Path::root(), self.schemas().own());
        let before = stored.map(|(old, _)| Correlated::new(object, old, &own));
        if let Some(before) = &before {
            let begin = self.stopwatch.begin();
            // Kept: what is held against the schema asks the same.
            before.is_same();
            self.stopwatch.end(Work::Comparison, begin);
        }
        match stored {
            Some((_, Part::Status)) => self.judge_status(object, before.as_ref(), errors),
            _ => {
                own.validate_values(object, before.as_ref(), &root, errors);
                own.validate_embedded(object, &root, errors);
            }
        }
        // Lists that were wrong before stay so until somebody mends them all.
        let was_wrong = stored.is_some_and(|(old, _)| {
            let mut found = FieldErrors::new();
            own.validate_lists(old, &root, &mut found);
            !found.is_empty()
        });
        if !was_wrong {
            own.validate_lists(object, &root, errors);
        }
        let rules = self.schemas().rules();
        let Some(rules) = rules.as_ref() else { return };
        if has_blocking(errors) {
            errors.invalid(
                &root,
                Value::Null,
                "some validation rules were not checked because the object was invalid; correct \
                 the existing errors to complete validation",
            );
            return;
        }
        let before =
            Before { value: stored.map(|(old, _)| old), ratchet: Ratchet::of(before.as_ref()) };
        let laps = Of(Work::Evaluation, self.stopwatch.as_ref());
        rules.evaluate_timed(object, before, &root, (OBJECT_BUDGET, &laps), errors);
    }

    /// Whoever writes a status does not answer for the rest.
    fn judge_status(
        &self,
        object: &Value,
        before: Option<&Correlated<'_>>,
        errors: &mut FieldErrors,
    ) {
        let own = self.schemas().own();
        if let (Some(schema), Some(status)) = (own.properties.get("status"), object.get("status")) {
            let before = before.and_then(|it| it.key("status"));
            let mut found = FieldErrors::new();
            schema.validate_values(status, before.as_ref(), &Path::new("status"), &mut found);
            // What is said of a value names it from where the status begins.
            for it in found.iter() {
                let below = it.path.as_str().trim_start_matches("status").trim_start_matches('.');
                let message = it.message.replacen(
                    &format!("{} in body", it.path),
                    &format!("{below} in body"),
                    1,
                );
                errors.push(&it.path, it.cause, message);
            }
        }
    }
}

/// Problems that leave rules without the values that they speak of.
fn has_blocking(errors: &FieldErrors) -> bool {
    let is_blocking = |cause: Cause| {
        matches!(
            cause,
            Cause::NotSupported
                | Cause::Required
                | Cause::TooLong
                | Cause::TooMany
                | Cause::TypeInvalid
        )
    };
    errors.iter().any(|it| is_blocking(it.cause))
}
