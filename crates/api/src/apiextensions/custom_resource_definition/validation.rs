//! What a CustomResourceDefinition may say. Every problem is collected, with its path.

use std::collections::BTreeSet;

use serde_json::Value;

use apimachinery::validation::{is_dns_subdomain, is_dns1035_label};
use apimachinery::{FieldErrors, Path};

use super::{
    CustomResourceDefinition, CustomResourceDefinitionNames, CustomResourceDefinitionVersion,
    conversion, is_established, versions,
};
use crate::codec;

/// In upstream's order. There, what all versions have in common is the definition's own.
pub(super) fn validate_spec(
    crd: &CustomResourceDefinition,
    stored: Option<&CustomResourceDefinition>,
    errors: &mut FieldErrors,
) {
    let spec = Path::new("spec");
    validate_group(crd, &spec.child("group"), errors);
    match crd.spec.scope.as_str() {
        "" => errors.required(&spec.child("scope"), ""),
        "Cluster" | "Namespaced" => {}
        other => errors.not_supported(&spec.child("scope"), other, &["Cluster", "Namespaced"]),
    }
    validate_presence_of_schemas(crd, stored, &spec.child("versions"), errors);
    if crd.spec.preserve_unknown_fields == Some(true) && has_defaults(crd) {
        let detail = "must be false in order to use defaults in the schema";
        errors.invalid(&spec.child("preserveUnknownFields"), true, detail);
    }
    versions::validate(crd, stored, errors);
    conversion::validate(crd, stored, errors);
}

/// Of what was stored without schemas long ago, those that are served need one.
fn validate_presence_of_schemas(
    crd: &CustomResourceDefinition,
    stored: Option<&CustomResourceDefinition>,
    path: &Path,
    errors: &mut FieldErrors,
) {
    let is_missing = |it: &CustomResourceDefinitionVersion| versions::schema_of(it).is_none();
    let is_old = stored.is_some_and(|it| it.spec.versions.iter().any(is_missing));
    let is_open = crd.spec.preserve_unknown_fields == Some(true);
    for (index, version) in crd.spec.versions.iter().enumerate().filter(|(_, it)| is_missing(it)) {
        let path = path.index(index).child("schema").child("openAPIV3Schema");
        if !is_old {
            errors.required(&path, "");
        } else if version.served && !is_open {
            errors.required(&path, "because otherwise all fields are pruned");
        }
    }
}

/// What the schemas do not name is dropped: new definitions cannot do without that.
pub(super) fn validate_pruning(crd: &CustomResourceDefinition, errors: &mut FieldErrors) {
    if crd.spec.preserve_unknown_fields == Some(true) {
        let detail = "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in \
                      spec.versions[*].schema instead";
        errors.invalid(&Path::new("spec").child("preserveUnknownFields"), true, detail);
    }
}

fn has_defaults(crd: &CustomResourceDefinition) -> bool {
    fn has(schema: &Value) -> bool {
        match schema {
            Value::Object(fields) => fields.contains_key("default") || fields.values().any(has),
            Value::Array(items) => items.iter().any(has),
            _ => false,
        }
    }
    let schemas = crd.spec.versions.iter().filter_map(|it| it.schema.as_ref());
    schemas.filter_map(|it| it.open_api_v3_schema.as_ref()).any(|it| has(&codec::tree(it)))
}

pub(super) fn validate_update(
    crd: &CustomResourceDefinition,
    stored: &CustomResourceDefinition,
    errors: &mut FieldErrors,
) {
    let spec = Path::new("spec");
    let mut validate = |path: Path, value: &str, before: &str| {
        if value != before {
            errors.invalid(&path, value, "field is immutable");
        }
    };
    let names = spec.child("names");
    if is_established(stored) {
        validate(spec.child("scope"), &crd.spec.scope, &stored.spec.scope);
        validate(names.child("kind"), &crd.spec.names.kind, &stored.spec.names.kind);
    }
    validate(spec.child("group"), &crd.spec.group, &stored.spec.group);
    validate(names.child("plural"), &crd.spec.names.plural, &stored.spec.names.plural);
}

pub(super) fn validate_stored_versions(crd: &CustomResourceDefinition, errors: &mut FieldErrors) {
    let path = Path::new("status").child("storedVersions");
    let stored = crd.status.as_ref().and_then(|it| it.stored_versions.as_ref());
    let versions: BTreeSet<&str> = crd.spec.versions.iter().map(|it| it.name.as_str()).collect();
    let shown = || Value::from(stored.cloned().unwrap_or_default());
    if stored.is_none_or(Vec::is_empty) {
        errors.invalid(&path, Value::Null, "must have at least one stored version");
    } else {
        // Of versions with the same name, the first has it.
        let mut left: BTreeSet<&String> = stored.into_iter().flatten().collect();
        for version in &crd.spec.versions {
            if !left.remove(&version.name) && version.storage {
                let detail = format!("must have the storage version {}", version.name);
                errors.invalid(&path, shown(), &detail);
            }
        }
    }
    for (index, version) in stored.into_iter().flatten().enumerate() {
        if !versions.contains(version.as_str()) {
            let why = format!(
                "missing from spec.versions; {version} was previously a storage version, and must remain in \
                 spec.versions until a storage migration ensures no data remains persisted in {version} and \
                 removes {version} from status.storedVersions"
            );
            errors.invalid(&path.index(index), version.as_str(), &why);
        }
    }
}

pub(super) fn validate_name(crd: &CustomResourceDefinition, errors: &mut FieldErrors) {
    let name = crd.metadata.name.as_deref().unwrap_or_default();
    if name != format!("{}.{}", crd.spec.names.plural, crd.spec.group) {
        let path = Path::new("metadata").child("name");
        errors.invalid(&path, name, "must be spec.names.plural+\".\"+spec.group");
    }
}

fn validate_group(crd: &CustomResourceDefinition, path: &Path, errors: &mut FieldErrors) {
    let group = crd.spec.group.as_str();
    if group.is_empty() {
        errors.required(path, "");
        return;
    }
    let problems = is_dns_subdomain(group);
    if !problems.is_empty() {
        errors.invalid(path, group, &problems.join(","));
    } else if !group.contains('.') {
        errors.invalid(path, group, "should be a domain with at least one dot");
    }
}

pub(super) fn validate_names(
    crd: &CustomResourceDefinition,
    path: &Path,
    errors: &mut FieldErrors,
) {
    let names = &crd.spec.names;
    for (field, value) in [
        ("plural", names.plural.as_str()),
        ("singular", names.singular.as_deref().unwrap_or_default()),
        ("kind", names.kind.as_str()),
        ("listKind", names.list_kind.as_deref().unwrap_or_default()),
    ] {
        if value.is_empty() {
            errors.required(&path.child(field), "");
        }
    }
    validate_given_names(names, path, errors);
}

/// Of a definition that was accepted once.
pub(super) fn validate_accepted_names(crd: &CustomResourceDefinition, errors: &mut FieldErrors) {
    if let Some(names) = crd.status.as_ref().and_then(|it| it.accepted_names.as_ref()) {
        validate_given_names(names, &Path::new("status").child("acceptedNames"), errors);
    }
}

fn validate_given_names(
    names: &CustomResourceDefinitionNames,
    path: &Path,
    errors: &mut FieldErrors,
) {
    if !names.plural.is_empty() {
        validate_label(&path.child("plural"), &names.plural, errors);
    }
    if let Some(singular) = names.singular.as_deref().filter(|it| !it.is_empty()) {
        validate_label(&path.child("singular"), singular, errors);
    }
    let list_kind = names.list_kind.as_deref().unwrap_or_default();
    for (field, value) in [("kind", names.kind.as_str()), ("listKind", list_kind)] {
        let problems = is_dns1035_label(&value.to_lowercase());
        if !value.is_empty() && !problems.is_empty() {
            let all = problems.join(",");
            let why = format!("may have mixed case, but should otherwise match: {all}");
            errors.invalid(&path.child(field), value, &why);
        }
    }
    for (index, name) in names.short_names.iter().flatten().enumerate() {
        validate_label(&path.child("shortNames").index(index), name, errors);
    }
    if !names.kind.is_empty() && names.kind == list_kind {
        let why = "kind and listKind may not be the same";
        errors.invalid(&path.child("listKind"), list_kind, why);
    }
    for (index, name) in names.categories.iter().flatten().enumerate() {
        validate_label(&path.child("categories").index(index), name, errors);
    }
}

pub(super) fn validate_label(path: &Path, value: &str, errors: &mut FieldErrors) {
    let problems = is_dns1035_label(value);
    if !problems.is_empty() {
        errors.invalid(path, value, &problems.join(","));
    }
}
