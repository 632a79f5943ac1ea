//! Conditions in CEL that a request has to meet for a webhook or a policy to see it. Whether
//! parameters are seen is for whoever has them to say; variables are not.

use std::collections::BTreeSet;

use k8s_openapi::api::admissionregistration::v1::MatchCondition;

use apimachinery::FieldErrors;
use apimachinery::field::Path;
use apimachinery::validation::is_qualified_name;

use super::expressions::{Compiler, Returns, Sees};
use crate::check;

const MAX: usize = 64;

pub(super) fn validate(
    conditions: &[MatchCondition],
    sees: Sees,
    path: &Path,
    errors: &mut FieldErrors,
) {
    if conditions.len() > MAX {
        errors.too_many(path, conditions.len(), MAX);
    }
    let mut names = BTreeSet::new();
    for (index, condition) in conditions.iter().enumerate() {
        let path = path.index(index);
        let (expression, expression_path) = (condition.expression.trim(), path.child("expression"));
        if expression.is_empty() {
            errors.required(&expression_path, "");
        } else if let Err(problem) = Compiler::default().compile(expression, sees, Returns::Bool) {
            problem.report(&expression_path, expression, errors);
        }
        let (name, path) = (condition.name.as_str(), path.child("name"));
        if name.is_empty() {
            errors.required(&path, "");
            continue;
        }
        check::format(name, &is_qualified_name(name), &path, errors);
        if !names.insert(name) {
            errors.duplicate(&path, name);
        }
    }
}
