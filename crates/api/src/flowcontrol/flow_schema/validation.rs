//! What is wrong with a FlowSchema.

use std::collections::BTreeSet;

use k8s_openapi::api::flowcontrol::v1::{
    FlowSchema, FlowSchemaSpec, NonResourcePolicyRule, PolicyRulesWithSubjects, ResourcePolicyRule,
    ServiceAccountSubject, Subject,
};
use serde_json::Value;

use apimachinery::FieldErrors;
use apimachinery::field::Path;
use apimachinery::validation::{is_dns_label, is_dns_subdomain};

use crate::check::{self, text};
use crate::flowcontrol::{EXEMPT, bootstrap};
use crate::{codec, semantic};

const PRECEDENCE_MAX: i32 = 10_000;
const METHODS: &[&str] = &["ByNamespace", "ByUser"];
const SUBJECTS: &[&str] = &["Group", "ServiceAccount", "User"];
const VERBS: &[&str] =
    &["create", "delete", "deletecollection", "get", "list", "patch", "proxy", "update", "watch"];

pub(super) fn validate(schema: &FlowSchema, errors: &mut FieldErrors) {
    let absent = FlowSchemaSpec::default();
    let spec = schema.spec.as_ref().unwrap_or(&absent);
    let (name, path) = (text(schema.metadata.name.as_ref()), Path::new("spec"));
    let precedence = spec.matching_precedence.unwrap_or(0);
    validate_precedence(name, precedence, &path.child("matchingPrecedence"), errors);
    if let Some(method) = &spec.distinguisher_method
        && !METHODS.contains(&method.type_.as_str())
    {
        let path = path.child("distinguisherMethod").child("type");
        errors.not_supported(&path, codec::tree(method), METHODS);
    }
    let level = spec.priority_level_configuration.name.as_str();
    let path_level = path.child("priorityLevelConfiguration").child("name");
    if level.is_empty() {
        errors.required(&path_level, "must reference a priority level");
    } else {
        check::format(level, &is_dns_subdomain(level), &path_level, errors);
    }
    for (index, rule) in spec.rules.iter().flatten().enumerate() {
        validate_rule(rule, &path.child("rules").index(index), errors);
    }
    if let Some(fixed) = bootstrap::mandatory_schema(name)
        && !semantic::equal(&schema.spec, &fixed.spec)
    {
        let detail = format!("spec of '{name}' must equal the fixed value");
        errors.invalid(&path, codec::tree(spec), &detail);
    }
}

fn validate_precedence(name: &str, precedence: i32, path: &Path, errors: &mut FieldErrors) {
    if precedence <= 0 {
        errors.invalid(path, precedence, "must be a positive value");
    }
    if precedence > PRECEDENCE_MAX {
        errors.invalid(path, precedence, &format!("must not be greater than {PRECEDENCE_MAX}"));
    }
    if precedence == 1 && name != EXEMPT {
        let detail = "only the schema named 'exempt' may have matchingPrecedence 1";
        errors.invalid(path, precedence, detail);
    }
}

fn validate_rule(rule: &PolicyRulesWithSubjects, path: &Path, errors: &mut FieldErrors) {
    if rule.subjects.is_empty() {
        let detail = "subjects must contain at least one value";
        errors.required(&path.child("subjects"), detail);
    }
    for (index, subject) in rule.subjects.iter().enumerate() {
        validate_subject(subject, &path.child("subjects").index(index), errors);
    }
    let resources = rule.resource_rules.as_deref().unwrap_or_default();
    let others = rule.non_resource_rules.as_deref().unwrap_or_default();
    if resources.is_empty() && others.is_empty() {
        let detail = "at least one of resourceRules and nonResourceRules has to be non-empty";
        errors.required(path, detail);
    }
    for (index, rule) in resources.iter().enumerate() {
        validate_resources(rule, &path.child("resourceRules").index(index), errors);
    }
    for (index, rule) in others.iter().enumerate() {
        validate_paths(rule, &path.child("nonResourceRules").index(index), errors);
    }
}

/// Exactly what belongs to its kind is there.
fn validate_subject(subject: &Subject, path: &Path, errors: &mut FieldErrors) {
    let kind = subject.kind.as_str();
    match kind {
        "ServiceAccount" => {
            let path = path.child("serviceAccount");
            validate_account(subject.service_account.as_ref(), &path, errors);
        }
        "User" => {
            let name = subject.user.as_ref().map(|it| it.name.as_str());
            validate_named(name, "user", "User", path, errors);
        }
        "Group" => {
            let name = subject.group.as_ref().map(|it| it.name.as_str());
            validate_named(name, "group", "Group", path, errors);
        }
        _ => return errors.not_supported(&path.child("kind"), kind, SUBJECTS),
    }
    for (field, owner, is_there) in [
        ("serviceAccount", "ServiceAccount", subject.service_account.is_some()),
        ("user", "User", subject.user.is_some()),
        ("group", "Group", subject.group.is_some()),
    ] {
        if is_there && kind != owner {
            let detail = format!("{field} is forbidden when subject kind is not '{owner}'");
            errors.forbidden(&path.child(field), &detail);
        }
    }
}

fn validate_named(
    name: Option<&str>,
    field: &str,
    kind: &str,
    path: &Path,
    errors: &mut FieldErrors,
) {
    let path = path.child(field);
    match name {
        None => {
            let detail = format!("{field} is required when subject kind is '{kind}'");
            errors.required(&path, &detail);
        }
        Some("") => errors.required(&path.child("name"), ""),
        Some(_) => {}
    }
}

fn validate_account(
    account: Option<&ServiceAccountSubject>,
    path: &Path,
    errors: &mut FieldErrors,
) {
    let Some(account) = account else {
        let detail = "serviceAccount is required when subject kind is 'ServiceAccount'";
        return errors.required(path, detail);
    };
    let (name, namespace) = (account.name.as_str(), account.namespace.as_str());
    match name {
        "" => errors.required(&path.child("name"), ""),
        "*" => {}
        _ => check::format(name, &is_dns_subdomain(name), &path.child("name"), errors),
    }
    let path = path.child("namespace");
    if namespace.is_empty() {
        errors.required(&path, "must specify namespace for service account");
    } else {
        check::format(namespace, &is_dns_label(namespace), &path, errors);
    }
}

fn has_wildcard(values: &[String]) -> bool {
    values.iter().any(|it| it == "*")
}

/// A wildcard stands alone.
fn validate_wildcard(values: &[String], what: &str, path: &Path, errors: &mut FieldErrors) {
    if values.len() > 1 && has_wildcard(values) {
        let detail = format!("if '*' is present, must not specify other {what}");
        errors.invalid(path, Value::from(values), &detail);
    }
}

fn validate_verbs(verbs: &[String], path: &Path, errors: &mut FieldErrors) {
    if verbs.is_empty() {
        return errors.required(path, "verbs must contain at least one value");
    }
    validate_wildcard(verbs, "verbs", path, errors);
    if !has_wildcard(verbs) && !verbs.iter().all(|it| VERBS.contains(&it.as_str())) {
        errors.not_supported(path, Value::from(verbs), VERBS);
    }
}

fn validate_paths(rule: &NonResourcePolicyRule, path: &Path, errors: &mut FieldErrors) {
    validate_verbs(&rule.verbs, &path.child("verbs"), errors);
    let (urls, path) = (rule.non_resource_urls.as_slice(), path.child("nonResourceURLs"));
    if urls.is_empty() {
        return errors.required(&path, "nonResourceURLs must contain at least one value");
    }
    validate_wildcard(urls, "non-resource URLs", &path, errors);
    if has_wildcard(urls) {
        return;
    }
    for (index, url) in urls.iter().enumerate() {
        if let Some(problem) = url_problem(url) {
            errors.invalid(&path.index(index), url.as_str(), problem);
        }
    }
}

/// The first that is wrong with a path; a wildcard may be its last segment.
fn url_problem(url: &str) -> Option<&'static str> {
    if url.is_empty() {
        Some("must not be empty")
    } else if !url.starts_with('/') {
        Some("must start with slash")
    } else if url.contains(' ') {
        Some("must not contain white-space")
    } else if url.contains("//") {
        Some("must not contain double slash")
    } else if url.strip_suffix("/*").unwrap_or(url).contains('*') {
        Some("wildcard can only do suffix matching")
    } else {
        None
    }
}

fn validate_resources(rule: &ResourcePolicyRule, path: &Path, errors: &mut FieldErrors) {
    validate_verbs(&rule.verbs, &path.child("verbs"), errors);
    for (field, values, one, others) in [
        ("apiGroups", &rule.api_groups, "api group", "api groups"),
        ("resources", &rule.resources, "resource", "resources"),
    ] {
        let path = path.child(field);
        if values.is_empty() {
            errors.required(&path, &format!("resource rules must supply at least one {one}"));
        }
        validate_wildcard(values, others, &path, errors);
    }
    let namespaces = rule.namespaces.as_deref().unwrap_or_default();
    let path = path.child("namespaces");
    if namespaces.is_empty() && rule.cluster_scope != Some(true) {
        let detail =
            "resource rules that are not cluster scoped must supply at least one namespace";
        errors.required(&path, detail);
    }
    validate_wildcard(namespaces, "namespaces", &path, errors);
    if has_wildcard(namespaces) {
        return;
    }
    for (index, namespace) in namespaces.iter().enumerate() {
        for problem in is_dns_label(namespace) {
            let detail =
                format!("each member of this list must be '*' or a DNS-1123 label; {problem}");
            errors.invalid(&path.index(index), namespace.as_str(), &detail);
        }
    }
}

pub(super) fn validate_status(schema: &FlowSchema, errors: &mut FieldErrors) {
    let conditions = schema.status.as_ref().and_then(|it| it.conditions.as_deref());
    let types = conditions.unwrap_or_default().iter().map(|it| text(it.type_.as_ref()));
    validate_condition_types(types, errors);
}

/// Each is there once, and says what it is of.
pub(in crate::flowcontrol) fn validate_condition_types<'a>(
    types: impl Iterator<Item = &'a str>,
    errors: &mut FieldErrors,
) {
    let path = Path::new("status").child("conditions");
    let mut seen = BTreeSet::new();
    for (index, it) in types.enumerate() {
        let path = path.index(index).child("type");
        if !seen.insert(it) {
            errors.duplicate(&path, it);
        }
        if it.is_empty() {
            errors.required(&path, "");
        }
    }
}
