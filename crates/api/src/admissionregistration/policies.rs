//! What both kinds of policies say: what they are for, by which parameters, with which variables.

use k8s_openapi::api::admissionregistration::v1::{
    MatchCondition, MatchResources, ParamKind, Variable,
};

use apimachinery::FieldErrors;
use apimachinery::cel::schema::names::is_reserved;
use apimachinery::field::Path;

use super::expressions::{Compiler, Sees};
use super::{match_conditions, match_resources, parameters};
use crate::semantic;

pub(super) const FAILURE_POLICIES: &[&str] = &["Fail", "Ignore"];
pub(super) const REINVOCATION_POLICIES: &[&str] = &["IfNeeded", "Never"];

/// The part of a policy that does not say what it does.
pub(super) struct Frame<'a> {
    pub(super) failure_policy: Option<&'a str>,
    pub(super) param_kind: Option<&'a ParamKind>,
    pub(super) match_constraints: Option<&'a MatchResources>,
    pub(super) match_conditions: &'a [MatchCondition],
    pub(super) variables: &'a [Variable],
}

impl Frame<'_> {
    /// Conditions that were accepted before are not looked at again.
    fn has_same_conditions(&self, stored: &Self) -> bool {
        let is_same_kind = semantic::equal(&self.param_kind, &stored.param_kind);
        is_same_kind && semantic::equal(&self.match_conditions, &stored.match_conditions)
    }

    pub(super) fn validate_failure_policy(&self, path: &Path, errors: &mut FieldErrors) {
        match self.failure_policy {
            None => errors.required(&path.child("failurePolicy"), ""),
            Some(policy) if !FAILURE_POLICIES.contains(&policy) => {
                errors.not_supported(&path.child("failurePolicy"), policy, FAILURE_POLICIES);
            }
            Some(_) => {}
        }
        if let Some(kind) = self.param_kind {
            parameters::validate_kind(kind, &path.child("paramKind"), errors);
        }
    }

    pub(super) fn validate_constraints(&self, path: &Path, errors: &mut FieldErrors) {
        let path = path.child("matchConstraints");
        let Some(constraints) = self.match_constraints else {
            return errors.required(&path, "");
        };
        match_resources::validate(constraints, &path, errors);
        // Without a rule nobody knows the type of what is looked at.
        if constraints.resource_rules.as_ref().is_none_or(Vec::is_empty) {
            errors.required(&path.child("resourceRules"), "");
        }
    }

    /// What expressions of the policy see.
    pub(super) fn sees(&self) -> Sees {
        Sees { params: self.param_kind.is_some(), authorizer: true, patches: false }
    }

    /// Gives the compiler for what comes after the variables.
    pub(super) fn validate_conditions(
        &self,
        stored: Option<&Self>,
        path: &Path,
        errors: &mut FieldErrors,
    ) -> Compiler {
        if !stored.is_some_and(|it| self.has_same_conditions(it)) {
            let path = path.child("matchConditions");
            match_conditions::validate(self.match_conditions, self.sees(), &path, errors);
        }
        let mut compiler = match self.variables.is_empty() {
            true => Compiler::default(),
            false => Compiler::with_variables(),
        };
        for (index, variable) in self.variables.iter().enumerate() {
            let path = path.child("variables").index(index);
            validate_variable(variable, &path, errors);
            let expression = variable.expression.as_str();
            if expression.trim().is_empty() {
                continue;
            }
            if let Err(problem) = compiler.declare(&variable.name, expression, self.sees()) {
                problem.report(&path.child("expression"), expression, errors);
            }
        }
        compiler
    }
}

fn validate_variable(variable: &Variable, path: &Path, errors: &mut FieldErrors) {
    let (name, name_path) = (variable.name.as_str(), path.child("name"));
    if name.trim().is_empty() {
        errors.required(&name_path, "name is not specified");
    } else if !is_identifier(name) {
        errors.invalid(&name_path, name, "must be a valid CEL identifier");
    }
    if variable.expression.trim().is_empty() {
        errors.required(&path.child("expression"), "expression is not specified");
    }
}

fn is_identifier(name: &str) -> bool {
    let is_first = |it: u8| it.is_ascii_alphabetic() || it == b'_';
    let is_next = |it: u8| it.is_ascii_alphanumeric() || it == b'_';
    name.bytes().next().is_some_and(is_first) && name.bytes().all(is_next) && !is_reserved(name)
}
