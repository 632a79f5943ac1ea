//! What is wrong with a ValidatingAdmissionPolicyBinding.

use std::collections::BTreeSet;

use apimachinery::FieldErrors;
use apimachinery::field::Path;

use super::ValidatingAdmissionPolicyBinding;
use crate::admissionregistration::bindings;

const ACTIONS: &[&str] = &["Audit", "Deny", "Warn"];

pub(super) fn validate(binding: &ValidatingAdmissionPolicyBinding, errors: &mut FieldErrors) {
    let spec = &binding.spec;
    let (param_ref, resources) = (spec.param_ref.as_ref(), spec.match_resources.as_ref());
    bindings::validate(&spec.policy_name, param_ref, resources, errors);
    let path = Path::new("spec").child("validationActions");
    validate_actions(&spec.validation_actions, &path, errors);
}

fn validate_actions(actions: &[String], path: &Path, errors: &mut FieldErrors) {
    let mut seen = BTreeSet::new();
    for (index, action) in actions.iter().map(String::as_str).enumerate() {
        let path = path.index(index);
        if !ACTIONS.contains(&action) {
            errors.not_supported(&path, action, ACTIONS);
        }
        if !seen.insert(action) {
            errors.duplicate(&path, action);
        }
    }
    if seen.contains("Deny") && seen.contains("Warn") {
        let why = "must not contain both Deny and Warn (repeating the same validation failure information in the API response and headers serves no purpose)";
        errors.invalid(path, actions.to_vec(), why);
    }
    if seen.is_empty() {
        errors.required(path, "at least one validation action is required");
    }
}
