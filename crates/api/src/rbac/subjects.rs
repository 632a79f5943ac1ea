//! Role reference and subjects, the same in RoleBinding and ClusterRoleBinding.

use k8s_openapi::api::rbac::v1::{RoleRef, Subject};
use serde_json::Value;

use apimachinery::field::Path;
use apimachinery::table::Column;
use apimachinery::validation::{is_dns_subdomain, is_path_segment};
use apimachinery::{FieldErrors, Scope};

use crate::check::{self, text};

const GROUP: &str = "rbac.authorization.k8s.io";

pub(super) const COLUMNS: &[Column] = &[
    Column::name(),
    Column::new("Role", "string"),
    Column::new("Age", "string"),
    Column::new("Users", "string").wide(),
    Column::new("Groups", "string").wide(),
    Column::new("ServiceAccounts", "string").wide(),
];

/// The cells Users, Groups and ServiceAccounts.
pub(super) fn cells(subjects: Option<&Vec<Subject>>) -> [Value; 3] {
    let of = |kind: &str| {
        let subjects = subjects.into_iter().flatten().filter(|it| it.kind == kind);
        let names: Vec<String> = subjects
            .map(|it| match text(it.namespace.as_ref()) {
                namespace if kind == "ServiceAccount" && !namespace.is_empty() => {
                    format!("{namespace}/{}", it.name)
                }
                _ => it.name.clone(),
            })
            .collect();
        Value::from(names.join(", "))
    };
    [of("User"), of("Group"), of("ServiceAccount")]
}

pub(super) fn apply_defaults(role: &mut RoleRef, subjects: Option<&mut Vec<Subject>>) {
    if text(role.api_group.as_ref()).is_empty() {
        role.api_group = Some(GROUP.to_owned());
    }
    for subject in subjects.into_iter().flatten() {
        let is_person = ["User", "Group"].contains(&subject.kind.as_str());
        if is_person && text(subject.api_group.as_ref()).is_empty() {
            subject.api_group = Some(GROUP.to_owned());
        }
    }
}

pub(super) fn validate(
    role: &RoleRef,
    subjects: Option<&Vec<Subject>>,
    scope: Scope,
    errors: &mut FieldErrors,
) {
    let path = Path::new("roleRef");
    let group = text(role.api_group.as_ref());
    if group != GROUP {
        errors.not_supported(&path.child("apiGroup"), group, &[GROUP]);
    }
    let kinds: &[&str] = match scope {
        Scope::Namespaced => &["Role", "ClusterRole"],
        Scope::Cluster => &["ClusterRole"],
    };
    if !kinds.contains(&role.kind.as_str()) {
        errors.not_supported_as_listed(&path.child("kind"), role.kind.as_str(), kinds);
    }
    if role.name.is_empty() {
        errors.required(&path.child("name"), "");
    } else {
        check::format(&role.name, &is_path_segment(&role.name), &path.child("name"), errors);
    }
    for (index, subject) in subjects.into_iter().flatten().enumerate() {
        validate_subject(subject, scope, &Path::new("subjects").index(index), errors);
    }
}

fn validate_subject(subject: &Subject, scope: Scope, path: &Path, errors: &mut FieldErrors) {
    if subject.name.is_empty() {
        errors.required(&path.child("name"), "");
    }
    let group = text(subject.api_group.as_ref());
    match subject.kind.as_str() {
        "ServiceAccount" => {
            if !subject.name.is_empty() {
                let messages = is_dns_subdomain(&subject.name);
                check::format(&subject.name, &messages, &path.child("name"), errors);
            }
            if !group.is_empty() {
                errors.not_supported(&path.child("apiGroup"), group, &[""]);
            }
            if scope == Scope::Cluster && text(subject.namespace.as_ref()).is_empty() {
                errors.required(&path.child("namespace"), "");
            }
        }
        "User" | "Group" => {
            if group != GROUP {
                errors.not_supported(&path.child("apiGroup"), group, &[GROUP]);
            }
        }
        other => {
            let kinds = ["ServiceAccount", "User", "Group"];
            errors.not_supported_as_listed(&path.child("kind"), other, &kinds);
        }
    }
}

pub(super) fn validate_unchanged(role: &RoleRef, stored: &RoleRef, errors: &mut FieldErrors) {
    if role != stored {
        let shown = serde_json::to_value(role).unwrap_or_default();
        errors.invalid(&Path::new("roleRef"), shown, "cannot change roleRef");
    }
}
