//! What is wrong with a ValidatingAdmissionPolicy.

use std::collections::BTreeSet;

use k8s_openapi::api::admissionregistration::v1::{
    AuditAnnotation, ValidatingAdmissionPolicySpec, Validation,
};

use apimachinery::FieldErrors;
use apimachinery::field::Path;
use apimachinery::validation::is_qualified_name;

use super::ValidatingAdmissionPolicy;
use crate::admissionregistration::expressions::{Compiler, Returns, Sees};
use crate::admissionregistration::policies::Frame;
use crate::apiextensions::json_path::JsonPath;
use crate::check::{self, text};
use crate::{codec, conditions};

const ANNOTATIONS_MAX: usize = 20;
const VALUE_EXPRESSION_BYTES_MAX: usize = 5 * 1024;
const REASONS: &[&str] = &["Forbidden", "Invalid", "RequestEntityTooLarge"];

fn frame(spec: &ValidatingAdmissionPolicySpec) -> Frame<'_> {
    Frame {
        failure_policy: spec.failure_policy.as_deref(),
        param_kind: spec.param_kind.as_ref(),
        match_constraints: spec.match_constraints.as_ref(),
        match_conditions: spec.match_conditions.as_deref().unwrap_or_default(),
        variables: spec.variables.as_deref().unwrap_or_default(),
    }
}

pub(super) fn validate(
    policy: &ValidatingAdmissionPolicy,
    stored: Option<&ValidatingAdmissionPolicy>,
    errors: &mut FieldErrors,
) {
    let Some(spec) = &policy.spec else { return };
    let path = Path::new("spec");
    let frame_here = frame(spec);
    frame_here.validate_failure_policy(&path, errors);
    frame_here.validate_constraints(&path, errors);
    let stored = stored.and_then(|it| it.spec.as_ref()).map(frame);
    let compiler = frame_here.validate_conditions(stored.as_ref(), &path, errors);
    let expressions = Expressions { compiler: &compiler, sees: frame_here.sees() };

    let validations = spec.validations.as_deref().unwrap_or_default();
    let annotations = spec.audit_annotations.as_deref().unwrap_or_default();
    if validations.is_empty() && annotations.is_empty() {
        for field in ["validations", "auditAnnotations"] {
            let why = "validations or auditAnnotations must contain at least one item";
            errors.required(&path.child(field), why);
        }
    }
    for (index, validation) in validations.iter().enumerate() {
        validate_validation(
            validation,
            &expressions,
            &path.child("validations").index(index),
            errors,
        );
    }
    let name = text(policy.metadata.name.as_ref());
    validate_annotations(name, annotations, &expressions, &path.child("auditAnnotations"), errors);
}

/// How the expressions of one policy are compiled.
struct Expressions<'a> {
    compiler: &'a Compiler,
    sees: Sees,
}

impl Expressions<'_> {
    fn validate(&self, text: &str, returns: Returns, path: &Path, errors: &mut FieldErrors) {
        if let Err(problem) = self.compiler.compile(text, self.sees, returns) {
            problem.report(path, text, errors);
        }
    }

    /// A message is made without asking whether anybody may do anything.
    fn without_authorizer(&self) -> Self {
        Self { sees: Sees { authorizer: false, ..self.sees }, ..*self }
    }
}

fn validate_validation(
    validation: &Validation,
    expressions: &Expressions<'_>,
    path: &Path,
    errors: &mut FieldErrors,
) {
    if validation.expression.trim().is_empty() {
        errors.required(&path.child("expression"), "expression is not specified");
    } else {
        let path = path.child("expression");
        expressions.validate(&validation.expression, Returns::Bool, &path, errors);
    }
    const EMPTY: &str = "must be non-empty if specified";
    let expression = text(validation.message_expression.as_ref());
    if !expression.is_empty() && expression.trim().is_empty() {
        errors.invalid(&path.child("messageExpression"), expression, EMPTY);
    } else if !expression.is_empty() {
        let path = path.child("messageExpression");
        expressions.without_authorizer().validate(expression, Returns::Text, &path, errors);
    }
    let message = text(validation.message.as_ref());
    if !message.is_empty() && message.trim().is_empty() {
        errors.invalid(&path.child("message"), message, EMPTY);
    } else if message.trim().contains(['\n', '\r']) {
        errors.invalid(&path.child("message"), message, "must not contain line breaks");
    }
    if let Some(reason) = validation.reason.as_deref().filter(|it| !REASONS.contains(it)) {
        errors.not_supported(&path.child("reason"), reason, REASONS);
    }
}

/// They end up in audit events below the policy's name.
fn validate_annotations(
    policy: &str,
    annotations: &[AuditAnnotation],
    expressions: &Expressions<'_>,
    path: &Path,
    errors: &mut FieldErrors,
) {
    if annotations.len() > ANNOTATIONS_MAX {
        let why = format!("must not have more than {ANNOTATIONS_MAX} auditAnnotations");
        errors.invalid(path, codec::tree(&annotations), &why);
    }
    let mut keys = BTreeSet::new();
    for (index, AuditAnnotation { key, value_expression }) in annotations.iter().enumerate() {
        let path = path.index(index);
        let key_path = path.child("key");
        if policy.is_empty() {
            errors.invalid(&key_path, key.as_str(), "requires metadata.name be non-empty");
        } else {
            let whole = format!("{policy}/{key}");
            check::format(&whole, &is_qualified_name(&whole), &key_path, errors);
        }
        let (trimmed, path) = (value_expression.trim(), path.child("valueExpression"));
        if trimmed.is_empty() {
            errors.required(&path, "valueExpression is not specified");
        } else if trimmed.len() > VALUE_EXPRESSION_BYTES_MAX {
            let why = format!("must not exceed {VALUE_EXPRESSION_BYTES_MAX} bytes in length");
            errors.required(&path, &why);
        } else {
            expressions.validate(trimmed, Returns::TextOrNull, &path, errors);
        }
        if !keys.insert(key) {
            errors.duplicate(&key_path, key.as_str());
        }
    }
}

pub(super) fn validate_status(policy: &ValidatingAdmissionPolicy, errors: &mut FieldErrors) {
    let Some(status) = &policy.status else { return };
    let path = Path::new("status");
    let checking = status.type_checking.as_ref();
    let warnings = checking.and_then(|it| it.expression_warnings.as_ref());
    for (index, warning) in warnings.into_iter().flatten().enumerate() {
        let path = path.child("typeChecking").child("expressionWarnings").index(index);
        if warning.warning.is_empty() {
            errors.required(&path.child("warning"), "");
        }
        validate_field_ref(warning.field_ref.trim(), &path.child("fieldRef"), errors);
    }
    let all = status.conditions.as_deref().unwrap_or_default();
    conditions::validate(all, &path.child("conditions"), errors);
}

/// `spec.validations[0].expression`.
fn validate_field_ref(reference: &str, path: &Path, errors: &mut FieldErrors) {
    if reference.is_empty() {
        return errors.required(path, "");
    }
    // Upstream's reader passes over a dot at the end.
    let read = reference.strip_suffix('.').unwrap_or(reference);
    let is_whole = reference.starts_with(['.', '[', '$']);
    let whole = if is_whole { read.to_owned() } else { format!(".{read}") };
    if let Err(err) = JsonPath::parse(&whole) {
        errors.invalid(path, reference, &format!("invalid JSONPath: {err}"));
    }
}
