//! What policies can be given: the kind of it in the policy, which objects in its bindings.

use std::fmt::Write as _;

use k8s_openapi::api::admissionregistration::v1::{ParamKind, ParamRef};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use serde_json::Value;

use apimachinery::FieldErrors;
use apimachinery::field::Path;
use apimachinery::validation::{
    is_dns_subdomain, is_dns1035_label, is_path_segment, validate_label_selector,
};

use crate::check::{self, text};

const NOT_FOUND_ACTIONS: &[&str] = &["Deny", "Allow"];

pub(super) fn validate_kind(kind: &ParamKind, path: &Path, errors: &mut FieldErrors) {
    validate_api_version(text(kind.api_version.as_ref()), &path.child("apiVersion"), errors);
    let (kind, path) = (text(kind.kind.as_ref()), path.child("kind"));
    if kind.is_empty() {
        return errors.required(&path, "");
    }
    let problems = is_dns1035_label(&kind.to_lowercase());
    if !problems.is_empty() {
        let why =
            format!("may have mixed case, but should otherwise match: {}", problems.join(","));
        errors.invalid(&path, kind, &why);
    }
}

/// `v1`, `apps/v1`.
fn validate_api_version(api_version: &str, path: &Path, errors: &mut FieldErrors) {
    if api_version.is_empty() {
        return errors.required(path, "");
    }
    if api_version.matches('/').count() > 1 {
        let why = format!("unexpected GroupVersion string: {api_version}");
        return errors.invalid(path, api_version, &why);
    }
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    let problems = is_dns_subdomain(group);
    if !group.is_empty() && !problems.is_empty() {
        errors.invalid(path, group, &problems.join(","));
    }
    let problems = is_dns1035_label(version);
    if version.is_empty() {
        errors.invalid(path, api_version, "version must be specified");
    } else if !problems.is_empty() {
        errors.invalid(path, version, &problems.join(","));
    }
}

pub(super) fn validate_ref(reference: &ParamRef, path: &Path, errors: &mut FieldErrors) {
    const EXCLUSIVE: &str = "name and selector are mutually exclusive";
    let name = text(reference.name.as_ref());
    if !name.is_empty() {
        check::format(name, &is_path_segment(name), &path.child("name"), errors);
        if reference.selector.is_some() {
            errors.forbidden(&path.child("name"), EXCLUSIVE);
        }
    }
    match &reference.selector {
        Some(selector) => {
            validate_label_selector(selector, &path.child("selector"), errors);
            if !name.is_empty() {
                errors.forbidden(&path.child("selector"), EXCLUSIVE);
            }
        }
        None if name.is_empty() => {
            errors.required(path, "one of name or selector must be specified");
        }
        None => {}
    }
    let action = text(reference.parameter_not_found_action.as_ref());
    check::one_of_listed(action, NOT_FOUND_ACTIONS, &path.child("parameterNotFoundAction"), errors);
}

/// The cell of a policy.
pub(super) fn kind_cell(kind: Option<&ParamKind>) -> Value {
    Value::from(kind.map_or_else(
        || "<unset>".to_owned(),
        |it| format!("{}/{}", text(it.api_version.as_ref()), text(it.kind.as_ref())),
    ))
}

/// The cell of a binding. Whether the kind has namespaces cannot be told from here.
pub(super) fn ref_cell(reference: Option<&ParamRef>) -> Value {
    let unset = || "<unset>".to_owned();
    Value::from(reference.map_or_else(unset, |it| {
        let (namespace, name) = (text(it.namespace.as_ref()), text(it.name.as_ref()));
        match (&it.selector, namespace) {
            (None, _) if name.is_empty() => unset(),
            (Some(selector), _) if name.is_empty() => selector_text(selector),
            (_, "") => format!("*/{name}"),
            _ => format!("{namespace}/{name}"),
        }
    }))
}

/// As Go prints the struct, which is what users see of upstream.
fn selector_text(selector: &LabelSelector) -> String {
    let mut all = "&LabelSelector{MatchLabels:map[string]string{".to_owned();
    for (key, value) in selector.match_labels.iter().flatten() {
        let _ = write!(all, "{key}: {value},");
    }
    all.push_str("},MatchExpressions:[]LabelSelectorRequirement{");
    for it in selector.match_expressions.iter().flatten() {
        let values = it.values.as_deref().unwrap_or_default().join(" ");
        let _ = write!(
            all,
            "LabelSelectorRequirement{{Key:{},Operator:{},Values:[{values}],}},",
            it.key, it.operator
        );
    }
    all.push_str("},}");
    all
}
