//! What a CustomResourceDefinition may say. Every problem is collected, with its path.

use std::collections::BTreeSet;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceColumnDefinition, CustomResourceDefinitionNames, CustomResourceSubresourceScale,
};
use serde_json::{Value, json};

use apimachinery::cel::OBJECT_BUDGET;
use apimachinery::cel::rules::{Before, Costs, Outcome, Rules, validate_definition};
use apimachinery::cel::schema::Role;
use apimachinery::schema::{ListType, Schema, SchemaRef, Type};
use apimachinery::validation::{is_dns_subdomain, is_dns1035_label};
use apimachinery::{FieldErrors, Path};

use super::{
    CustomResourceDefinition, CustomResourceDefinitionVersion, conversion, is_established,
};
use crate::apiextensions::json_path::JsonPath;
use crate::codec;

const SELECTABLE_FIELDS_MAX: usize = 8;
const COLUMN_TYPES: &[&str] = &["boolean", "date", "integer", "number", "string"];
const COLUMN_FORMATS: &[&str] =
    &["byte", "date", "date-time", "double", "float", "int32", "int64", "password"];

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
    validate_names(crd, &spec.child("names"), errors);
    validate_versions(crd, stored, &spec.child("versions"), errors);
    if crd.spec.preserve_unknown_fields == Some(true) && has_defaults(crd) {
        let detail = "must be false in order to use defaults in the schema";
        errors.invalid(&spec.child("preserveUnknownFields"), true, detail);
    }
    conversion::validate(crd, stored, errors);
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
        let is_stored = |name: &String| stored.is_some_and(|it| it.contains(name));
        let kept = crd.spec.versions.iter().filter(|it| it.storage);
        for version in kept.filter(|it| !is_stored(&it.name)) {
            let detail = format!("must have the storage version {}", version.name);
            errors.invalid(&path, shown(), &detail);
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

fn validate_names(crd: &CustomResourceDefinition, path: &Path, errors: &mut FieldErrors) {
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
    let mut validate = |field: Path, value: &str| {
        let problems = is_dns1035_label(value);
        if !problems.is_empty() {
            errors.invalid(&field, value, &problems.join(","));
        }
    };
    if !names.plural.is_empty() {
        validate(path.child("plural"), &names.plural);
    }
    if let Some(singular) = names.singular.as_deref().filter(|it| !it.is_empty()) {
        validate(path.child("singular"), singular);
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
    let mut validate = |field: &str, index: usize, value: &str| {
        let problems = is_dns1035_label(value);
        if !problems.is_empty() {
            errors.invalid(&path.child(field).index(index), value, &problems.join(","));
        }
    };
    for (index, name) in names.short_names.iter().flatten().enumerate() {
        validate("shortNames", index, name);
    }
    for (index, name) in names.categories.iter().flatten().enumerate() {
        validate("categories", index, name);
    }
    if !names.kind.is_empty() && names.kind == list_kind {
        let why = "kind and listKind may not be the same";
        errors.invalid(&path.child("listKind"), list_kind, why);
    }
}

fn validate_versions(
    crd: &CustomResourceDefinition,
    stored: Option<&CustomResourceDefinition>,
    path: &Path,
    errors: &mut FieldErrors,
) {
    let versions = &crd.spec.versions;
    let names: Vec<&str> = versions.iter().map(|it| it.name.as_str()).collect();
    let shown = match names.as_slice() {
        // Of a definition of which nothing else was said either.
        [] if crd.spec.group.is_empty() => Value::Null,
        names => names.iter().map(|it| json!({ "name": it })).collect(),
    };
    if names.iter().collect::<BTreeSet<_>>().len() != names.len() {
        errors.invalid(path, shown.clone(), "must contain unique version names");
    }
    if versions.iter().filter(|it| it.storage).count() != 1 {
        errors.invalid(path, shown, "must have exactly one version marked as storage version");
    }
    for (index, version) in versions.iter().enumerate() {
        // What all versions have in common is the definition's own, in upstream's internal form.
        let hoisted = (versions.len() == 1).then(|| Path::new("spec"));
        let costs = costs_of(version, stored);
        validate_version(version, (&path.index(index), hoisted.as_ref()), costs, errors);
    }
    // An older form of the definition had one version alone: that is the first.
    let first = names.first().copied().unwrap_or_default();
    let problems = is_dns1035_label(first);
    if !first.is_empty() && !problems.is_empty() {
        errors.invalid(&Path::new("spec").child("version"), first, &problems.join(","));
    }
}

/// Rules of a schema that was accepted before are not too dear now.
fn costs_of(
    version: &CustomResourceDefinitionVersion,
    stored: Option<&CustomResourceDefinition>,
) -> Costs {
    let mut before = stored.into_iter().flat_map(|it| &it.spec.versions);
    match before.find(|it| it.name == version.name) {
        Some(before) if before.schema == version.schema => Costs::Accepted,
        _ => Costs::Judged,
    }
}

fn validate_version(
    version: &CustomResourceDefinitionVersion,
    (path, hoisted): (&Path, Option<&Path>),
    costs: Costs,
    errors: &mut FieldErrors,
) {
    let problems = is_dns1035_label(&version.name);
    if !problems.is_empty() {
        errors.invalid(&path.child("name"), version.name.as_str(), &problems.join(","));
    }
    if version.deprecation_warning.is_some() && version.deprecated != Some(true) {
        let why = "can only be set for deprecated versions";
        errors.invalid(
            &path.child("deprecationWarning"),
            version.deprecation_warning.as_deref().unwrap_or_default(),
            why,
        );
    }
    let schema_path = path.child("schema").child("openAPIV3Schema");
    let written = version.schema.as_ref().and_then(|it| it.open_api_v3_schema.as_ref());
    let own = hoisted.unwrap_or(path);
    validate_columns_and_scale(version, own, errors);
    let Some(written) = written else {
        errors.required(&schema_path, "");
        if version.selectable_fields.iter().flatten().next().is_some() {
            let detail = match hoisted {
                Some(_) => "may only be set when validations.schema is included",
                None => "may only be set when `version.schema.openAPIV3Schema` is not included",
            };
            errors.invalid(&own.child("selectableFields"), "", detail);
        }
        return;
    };
    let schema_path =
        hoisted.map_or(schema_path, |it| it.child("validation").child("openAPIV3Schema"));
    let tree = codec::tree(written);
    let mut found = FieldErrors::new();
    let schema = Schema::from_open_api(&tree, &schema_path, &mut found);
    let mut budget = Some(OBJECT_BUDGET);
    for (name, property) in schema.properties.iter().filter(|(name, _)| !is_given(name)) {
        let path = schema_path.child("properties").key(name);
        validate_node(property, &path, &mut budget, &mut found);
    }
    let is_sound = found.is_empty();
    errors.extend(found);
    validate_definition(&schema, &schema_path, (is_sound, costs), errors);
    validate_selectable_fields(version, &schema, &own.child("selectableFields"), errors);
}

fn validate_columns_and_scale(
    version: &CustomResourceDefinitionVersion,
    path: &Path,
    errors: &mut FieldErrors,
) {
    let columns = version.additional_printer_columns.iter().flatten();
    for (index, column) in columns.enumerate() {
        validate_column(column, &path.child("additionalPrinterColumns").index(index), errors);
    }
    if let Some(scale) = version.subresources.as_ref().and_then(|it| it.scale.as_ref()) {
        validate_scale(scale, &path.child("subresources").child("scale"), errors);
    }
}

/// Every object has these, and they come from elsewhere.
fn is_given(name: &str) -> bool {
    ["apiVersion", "kind", "metadata"].contains(&name)
}

/// Defaults must pass what they are a default for; keys of lists must be there to compare by. The
/// reader of the schema bounds its depth.
fn validate_node(schema: &SchemaRef, path: &Path, budget: &mut Outcome, errors: &mut FieldErrors) {
    if let Some(default) = &schema.default {
        let path = path.child("default");
        let unknown = schema.prune(&mut default.clone());
        if !unknown.is_empty() {
            let why = format!("must not have fields that the schema lacks: {}", unknown.join(", "));
            errors.invalid(&path, default.clone(), &why);
        }
        // What is said of the value itself leaves out where it is.
        let mut found = FieldErrors::new();
        schema.validate(default, &path, &mut found);
        if found.is_empty() {
            validate_default(schema, default, &path, budget, errors);
        }
        for it in found.iter() {
            errors.push(&it.path, it.cause, it.message.replacen(&format!("{path} in"), " in", 1));
        }
    }
    if let (ListType::Map { keys }, Some(items)) = (&schema.list_type, &schema.items) {
        validate_list_keys(keys, items, path, errors);
    }
    // What every object has is not the author's to mend.
    let children = schema.properties.iter();
    let children = children.filter(|(name, _)| !schema.is_embedded_resource || !is_given(name));
    let children = children.map(|(name, it)| (path.child("properties").key(name), it));
    let items = schema.items.iter().map(|it| (path.child("items"), it));
    let values = schema.additional.iter().map(|it| (path.child("additionalProperties"), it));
    for (path, child) in children.chain(items).chain(values) {
        validate_node(child, &path, budget, errors);
    }
}

/// A default keeps the rules, both as something new and as what was there before.
fn validate_default(
    schema: &SchemaRef,
    default: &Value,
    path: &Path,
    budget: &mut Outcome,
    errors: &mut FieldErrors,
) {
    let Some(rules) = Rules::new(schema, Role::of(schema)) else { return };
    let Some(left) = *budget else { return };
    let mut found = FieldErrors::new();
    let same = Before { value: Some(default), ..Before::default() };
    *budget = rules.evaluate(default, same, path, left, &mut found);
    if found.is_empty() {
        let fresh = rules.evaluate(default, Before::default(), path, left, &mut found);
        *budget = (*budget).min(fresh);
    }
    errors.extend(found);
}

fn validate_list_keys(keys: &[String], items: &SchemaRef, path: &Path, errors: &mut FieldErrors) {
    for (index, key) in keys.iter().enumerate() {
        let Some(property) = items.properties.get(key) else {
            let path = path.child("x-kubernetes-list-map-keys").index(index);
            errors.invalid(&path, key.as_str(), "must name a property of the items");
            continue;
        };
        let path = path.child("items").child("properties").key(key);
        if matches!(property.kind, Type::Array | Type::Object | Type::Any) {
            errors.invalid(&path.child("type"), key.as_str(), "a key of a list must be a scalar");
        }
        if property.default.is_none() && !items.required.contains(key) {
            errors.required(
                &path.child("default"),
                "this property is in x-kubernetes-list-map-keys, so it must have a default or be a required property",
            );
        }
    }
}

fn validate_column(column: &CustomResourceColumnDefinition, path: &Path, errors: &mut FieldErrors) {
    if column.name.is_empty() {
        errors.required(&path.child("name"), "");
    }
    match column.type_.as_str() {
        "" => errors.required(&path.child("type"), &one_of(COLUMN_TYPES)),
        kind if COLUMN_TYPES.contains(&kind) => {}
        other => errors.invalid(&path.child("type"), other, &one_of(COLUMN_TYPES)),
    }
    let format = column.format.as_deref().unwrap_or_default();
    if !format.is_empty() && !COLUMN_FORMATS.contains(&format) {
        errors.invalid(&path.child("format"), format, &one_of(COLUMN_FORMATS));
    }
    validate_path(&column.json_path, &path.child("JSONPath"), errors);
}

fn one_of(supported: &[&str]) -> String {
    format!("must be one of {}", supported.join(","))
}

/// Whether there is one, from a dot on. One that cannot be read leads nowhere.
fn validate_path(text: &str, path: &Path, errors: &mut FieldErrors) -> bool {
    if text.is_empty() {
        errors.required(path, "");
    } else if !text.starts_with('.') {
        errors.invalid(path, text, "must be a simple json path starting with .");
    }
    text.starts_with('.')
}

fn validate_scale(scale: &CustomResourceSubresourceScale, path: &Path, errors: &mut FieldErrors) {
    let mut validate = |field: &str, text: &str, roots: &[&str]| {
        let path = path.child(field);
        if !validate_path(text, &path, errors) {
            return;
        }
        if !roots.iter().any(|it| text.starts_with(&format!(".{it}."))) {
            let names: Vec<String> = roots.iter().map(|it| format!(".{it}")).collect();
            let either = if names.len() > 1 { "either " } else { "" };
            let why = format!("should be a json path under {either}{}", names.join(" or "));
            errors.invalid(&path, text, &why);
        }
    };
    validate("specReplicasPath", &scale.spec_replicas_path, &["spec"]);
    validate("statusReplicasPath", &scale.status_replicas_path, &["status"]);
    if let Some(selector) = scale.label_selector_path.as_deref().filter(|it| !it.is_empty()) {
        validate("labelSelectorPath", selector, &["spec", "status"]);
    }
}

fn validate_selectable_fields(
    version: &CustomResourceDefinitionVersion,
    schema: &SchemaRef,
    path: &Path,
    errors: &mut FieldErrors,
) {
    let fields = version.selectable_fields.as_deref().unwrap_or_default();
    if fields.len() > SELECTABLE_FIELDS_MAX {
        errors.too_many(path, fields.len(), SELECTABLE_FIELDS_MAX);
    }
    let mut seen = BTreeSet::new();
    for (index, field) in fields.iter().enumerate() {
        let path = path.index(index).child("jsonPath");
        let text = field.json_path.as_str();
        if text.is_empty() {
            errors.required(&path, "");
            continue;
        }
        let Ok(parsed) = JsonPath::parse(text) else {
            let detail = format!("is an invalid path: expected [ or . but got: {text}");
            errors.invalid(&path, text, &detail);
            continue;
        };
        match parsed.fields() {
            Some(names) if names[0] == "metadata" => {
                errors.invalid(&path, text, "must not point to fields in metadata");
            }
            Some(names) if is_selectable(schema, &names) => {}
            _ => errors.invalid(
                &path,
                text,
                "must point to a field of type string, boolean or integer. Enum string fields and \
                 strings with formats are allowed.",
            ),
        }
        if !seen.insert(text) {
            errors.duplicate(&path, text);
        }
    }
}

fn is_selectable(schema: &SchemaRef, fields: &[&str]) -> bool {
    let found =
        fields.iter().try_fold(schema.clone(), |it, name| it.properties.get(*name).cloned());
    found.is_some_and(|it| matches!(it.kind, Type::String | Type::Boolean | Type::Integer))
}
