//! What is wrong with a MutatingAdmissionPolicy.

use k8s_openapi::api::admissionregistration::v1::{MutatingAdmissionPolicySpec, Mutation};

use apimachinery::FieldErrors;
use apimachinery::field::Path;

use super::MutatingAdmissionPolicy;
use crate::admissionregistration::expressions::{Compiler, Returns, Sees};
use crate::admissionregistration::policies::{Frame, REINVOCATION_POLICIES};
use crate::admissionregistration::rules;
use crate::check::{self, text};

const PATCH_TYPES: &[&str] = &["ApplyConfiguration", "JSONPatch"];

fn frame(spec: &MutatingAdmissionPolicySpec) -> Frame<'_> {
    Frame {
        failure_policy: spec.failure_policy.as_deref(),
        param_kind: spec.param_kind.as_ref(),
        match_constraints: spec.match_constraints.as_ref(),
        match_conditions: spec.match_conditions.as_deref().unwrap_or_default(),
        variables: spec.variables.as_deref().unwrap_or_default(),
    }
}

pub(super) fn validate(
    policy: &MutatingAdmissionPolicy,
    stored: Option<&MutatingAdmissionPolicy>,
    errors: &mut FieldErrors,
) {
    let Some(spec) = &policy.spec else { return };
    let path = Path::new("spec");
    let frame_here = frame(spec);
    frame_here.validate_failure_policy(&path, errors);
    frame_here.validate_constraints(&path, errors);
    let constraints = spec.match_constraints.as_ref();
    let all_rules = constraints.and_then(|it| it.resource_rules.as_ref());
    let rules_path = path.child("matchConstraints").child("resourceRules");
    rules::validate_mutating(all_rules, &rules_path, errors);
    let stored = stored.and_then(|it| it.spec.as_ref()).map(frame);
    let compiler = frame_here.validate_conditions(stored.as_ref(), &path, errors);
    let sees = Sees { patches: true, ..frame_here.sees() };

    let mutations = spec.mutations.as_deref().unwrap_or_default();
    if mutations.is_empty() {
        errors.required(&path.child("mutations"), "mutations must contain at least one item");
    }
    for (index, mutation) in mutations.iter().enumerate() {
        let path = path.child("mutations").index(index);
        validate_mutation(mutation, (&compiler, sees), &path, errors);
    }
    let policy = text(spec.reinvocation_policy.as_ref());
    check::one_of(policy, REINVOCATION_POLICIES, &path.child("reinvocationPolicy"), errors);
}

/// Of the two ways to say it, the one that the type names.
fn validate_mutation(
    mutation: &Mutation,
    (compiler, sees): (&Compiler, Sees),
    path: &Path,
    errors: &mut FieldErrors,
) {
    let patch = mutation.json_patch.as_ref().map(|it| text(it.expression.as_ref()));
    let apply = mutation.apply_configuration.as_ref().map(|it| text(it.expression.as_ref()));
    let (wanted, other) = match mutation.patch_type.as_str() {
        "JSONPatch" => (("jsonPatch", patch), ("applyConfiguration", apply)),
        "ApplyConfiguration" => (("applyConfiguration", apply), ("jsonPatch", patch)),
        patch_type => {
            return check::one_of(patch_type, PATCH_TYPES, &path.child("patchType"), errors);
        }
    };
    let ((field, expression), patch_type) = (wanted, &mutation.patch_type);
    match expression {
        None => {
            let why = format!("must be specified when patchType is {patch_type}");
            errors.required(&path.child(field), &why);
        }
        Some(expression) if expression.trim().is_empty() => {
            errors.required(&path.child(field).child("expression"), "");
        }
        Some(expression) => {
            let returns = if field == "jsonPatch" { Returns::JsonPatches } else { Returns::Object };
            let expression = expression.trim();
            if let Err(problem) = compiler.compile(expression, sees, returns) {
                problem.report(&path.child(field).child("expression"), expression, errors);
            }
        }
    }
    if let (field, Some(_)) = other {
        let why = format!("must not be specified when patchType is {patch_type}");
        errors.invalid(&path.child(field), format!("{{{field}}}"), &why);
    }
}
