//! Reading the schema of a custom resource, which must be structural: every field has a type, and
//! value checks in allOf, anyOf, oneOf and not only restrict what the outer schema already
//! describes.

mod resources;

use std::collections::BTreeSet;
use std::sync::{Arc, OnceLock};

use serde_json::{Map, Value, json};

use super::definitions::{Definitions, read_extensions, read_type};
use super::values::{branches, compile, patterns_of};
use super::{Schema, SchemaRef, Type};
use crate::field::{Cause, FieldError, FieldErrors, Path};

/// What `Schema::checks` keeps.
const CHECKS: &[&str] = &[
    "enum",
    "pattern",
    "minimum",
    "maximum",
    "exclusiveMinimum",
    "exclusiveMaximum",
    "multipleOf",
    "minLength",
    "maxLength",
    "minItems",
    "maxItems",
    "uniqueItems",
    "minProperties",
    "maxProperties",
    "allOf",
    "anyOf",
    "oneOf",
    "not",
    "x-kubernetes-validations",
];
const TYPES: &[&str] = &["array", "boolean", "integer", "number", "object", "string"];
/// What OpenAPI has and custom resources do not.
const UNSUPPORTED: &[&str] =
    &["id", "additionalItems", "patternProperties", "definitions", "dependencies", "$ref"];
const EMPTY: &str = "Required value: must not be empty";
/// Of a word in a branch.
const BRANCH: &str = "must be empty to be structural";
const DEPTH_MAX: usize = 100;
/// Different patterns in one schema: each has to be compiled.
const PATTERNS_MAX: usize = 2_000;

pub(super) fn read(schema: &Value, path: &Path, errors: &mut FieldErrors) -> SchemaRef {
    let empty = Map::new();
    let source = schema.as_object().unwrap_or(&empty);
    let mut found = FieldErrors::new();
    resources::validate(source, resources::Place::Root, path, &mut found);
    let mut root = read_node(source, path, &mut found, 0);
    let mut standard = Standard::default();
    standard.validate(source, path, 0);
    // Of a schema that is not of the standard, nobody says what it lacks to be structural.
    let is_told = |it: &&FieldError| !standard.is_left || !is_of_structure(&it.message);
    for FieldError { path, cause, message } in found.iter().filter(is_told) {
        errors.push(path, *cause, message.clone());
    }
    if standard.is_left && standard.errors.is_empty() {
        errors.invalid(path, "", "OpenAPIV3Schema 'schema' is not supported");
    }
    errors.extend(standard.errors);
    add_type_and_metadata(&mut root);
    root.n_branches = n_branches(&root);
    let mut patterns = BTreeSet::new();
    patterns_below(&root, &mut patterns);
    if patterns.len() > PATTERNS_MAX {
        errors.too_many(&path.child("pattern"), patterns.len(), PATTERNS_MAX);
    } else {
        validate_patterns(&patterns, path, errors);
    }
    Arc::new(root)
}

fn below(schema: &Schema) -> impl Iterator<Item = &SchemaRef> {
    schema.properties.values().chain(&schema.items).chain(&schema.additional)
}

/// Branches of the checks, of their branches, and of the schemas below.
fn n_branches(schema: &Schema) -> usize {
    let checks = schema.checks.as_deref().and_then(Value::as_object).map_or(0, branches_of);
    checks + below(schema).map(|it| n_branches(it)).sum::<usize>()
}

fn branches_of(checks: &Map<String, Value>) -> usize {
    branches(checks).map(|it| 1 + branches_of(it)).sum()
}

fn patterns_below<'a>(schema: &'a Schema, found: &mut BTreeSet<&'a str>) {
    if let Some(checks) = schema.checks.as_deref().and_then(Value::as_object) {
        patterns_of(checks, found);
    }
    below(schema).for_each(|it| patterns_below(it, found));
}

/// Those of branches; the others are reported where they are.
fn validate_patterns(patterns: &BTreeSet<&str>, path: &Path, errors: &mut FieldErrors) {
    for pattern in patterns {
        if let Err(err) = compile(pattern) {
            let detail = format!("must be a valid regular expression, but isn't: {err}");
            errors.invalid(&path.child("pattern"), *pattern, &detail);
        }
    }
}

/// Every object has these, whether the schema names them or not.
fn add_type_and_metadata(schema: &mut Schema) {
    let is_text = |it: &SchemaRef| it.kind == Type::String;
    let said = ["apiVersion", "kind"];
    let is_said = said.iter().all(|it| schema.properties.get(*it).is_some_and(is_text));
    schema.names_type |= is_said && !schema.has_given_metadata;
    for name in ["apiVersion", "kind"] {
        let text = || Arc::new(Schema { kind: Type::String, ..Schema::default() });
        schema.properties.entry(name.to_owned()).or_insert_with(text);
    }
    let was_given = std::mem::replace(&mut schema.has_given_metadata, true);
    let own = schema.properties.insert("metadata".to_owned(), object_meta());
    // The root may be an embedded resource by its own account, too.
    if schema.own_metadata.is_none() && !was_given {
        schema.own_metadata = own;
    }
}

fn read_node(
    source: &Map<String, Value>,
    path: &Path,
    errors: &mut FieldErrors,
    depth: usize,
) -> Schema {
    let mut schema = Schema { kind: read_type(source), ..read_extensions(source) };
    if depth > DEPTH_MAX {
        errors.invalid(path, "", "the schema is nested too deeply");
        return schema;
    }
    if let Some(text) = source.get("description").and_then(Value::as_str) {
        text.clone_into(&mut schema.description);
    }
    validate_structure(source, path, errors);
    let properties = path.child("properties");
    for (name, property) in
        source.get("properties").and_then(Value::as_object).into_iter().flatten()
    {
        let path = properties.key(name);
        let child = read_child(property, "specified object fields", &path, errors, depth);
        schema.properties.insert(name.clone(), child);
    }
    if let Some(items) = source.get("items") {
        let path = path.child("items");
        schema.items = Some(read_child(items, "specified array items", &path, errors, depth));
    } else if schema.kind == Type::Array {
        errors.required(&path.child("items"), "must be specified");
    }
    match source.get("additionalProperties") {
        None => {}
        Some(Value::Bool(true)) => schema.additional = Some(Arc::default()),
        Some(Value::Bool(false)) => errors.forbidden(
            &path.child("additionalProperties"),
            "additionalProperties cannot be set to false",
        ),
        Some(values) => {
            let path = path.child("additionalProperties");
            let child = read_child(values, "specified object fields", &path, errors, depth);
            schema.additional = Some(child);
        }
    }
    // What an object has is what is named, also if that is nothing.
    schema.is_closed = schema.kind == Type::Object;
    if schema.is_embedded_resource {
        add_type_and_metadata(&mut schema);
    }
    schema.checks = read_checks(source, path, errors);
    schema
}

fn read_child(
    source: &Value,
    what: &str,
    path: &Path,
    errors: &mut FieldErrors,
    depth: usize,
) -> SchemaRef {
    let Some(source) = source.as_object() else {
        errors.invalid(path, source.clone(), "must be a schema");
        return Arc::default();
    };
    resources::validate(source, resources::Place::Below(what), path, errors);
    Arc::new(read_node(source, path, errors, depth + 1))
}

fn flag(source: &Map<String, Value>, key: &str) -> bool {
    source.get(key).and_then(Value::as_bool).unwrap_or_default()
}

fn validate_structure(source: &Map<String, Value>, path: &Path, errors: &mut FieldErrors) {
    validate_default_type(source, path, errors);
}

/// A default is of no type that there is not.
fn validate_default_type(source: &Map<String, Value>, path: &Path, errors: &mut FieldErrors) {
    let kind = source.get("type").and_then(Value::as_str).filter(|it| !TYPES.contains(it));
    let (Some(kind), Some(default)) = (kind, source.get("default")) else { return };
    let found = match default {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_f64() => "number",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    };
    let message = format!("Invalid value: {found:?}:  in body must be of type {kind}: {found:?}");
    errors.push(&path.child("default"), Cause::TypeInvalid, message);
}

/// Whether it is said of schemas alone that are structural otherwise.
fn is_of_structure(message: &str) -> bool {
    message.starts_with(EMPTY) || message.ends_with(BRANCH)
}

/// What OpenAPI says of a schema, and of all that are part of it, wherever they are.
#[derive(Default)]
struct Standard {
    errors: FieldErrors,
    /// There are words in it that no structural schema has.
    is_left: bool,
}

impl Standard {
    fn validate(&mut self, source: &Map<String, Value>, path: &Path, depth: usize) {
        if depth > DEPTH_MAX {
            return;
        }
        self.validate_words(source, path);
        self.validate_merging(source, path);
        for (name, value) in source {
            let path = path.child(name);
            let below: Vec<(Path, &Value)> = match (name.as_str(), value) {
                ("properties" | "definitions" | "dependencies", Value::Object(all)) => {
                    all.iter().map(|(key, it)| (path.key(key), it)).collect()
                }
                ("allOf" | "anyOf" | "oneOf" | "items", Value::Array(all)) => {
                    all.iter().enumerate().map(|(index, it)| (path.index(index), it)).collect()
                }
                ("not" | "items" | "additionalProperties", Value::Object(_)) => vec![(path, value)],
                _ => Vec::new(),
            };
            for (path, value) in below {
                if let Value::Object(schema) = value {
                    self.validate(schema, &path, depth + 1);
                }
            }
        }
    }

    fn validate_words(&mut self, source: &Map<String, Value>, path: &Path) {
        let errors = &mut self.errors;
        if let Some(kind) = source.get("type") {
            let is_known = kind.as_str().is_some_and(|it| TYPES.contains(&it) || it.is_empty());
            if !is_known {
                errors.not_supported(&path.child("type"), kind.clone(), TYPES);
            }
        }
        let is_nothing = |it: &Value| match it {
            Value::Object(fields) => fields.is_empty(),
            Value::String(text) => text.is_empty(),
            other => other.is_null(),
        };
        let is_said = |name: &str| {
            let may_be_empty = ["additionalItems", "$ref", "dependencies"].contains(&name);
            source.get(name).is_some_and(|it| !it.is_null() && (may_be_empty || !is_nothing(it)))
        };
        for name in UNSUPPORTED.iter().filter(|it| is_said(it)) {
            self.is_left = true;
            errors.forbidden(&path.child(name), &format!("{name} is not supported"));
        }
        self.is_left |= is_said("$schema");
        if source.get("items").is_some_and(Value::is_array) {
            self.is_left = true;
            let detail = "items must be a schema object and not an array";
            errors.forbidden(&path.child("items"), detail);
        }
        if flag(source, "uniqueItems") {
            errors.forbidden(
                &path.child("uniqueItems"),
                "uniqueItems cannot be set to true since the runtime complexity becomes quadratic",
            );
        }
        let has_names = source.get("properties").is_some_and(|it| !is_nothing(it));
        let is_open = matches!(source.get("additionalProperties"), None | Some(Value::Bool(true)));
        if has_names && !is_open {
            errors.forbidden(
                &path.child("additionalProperties"),
                "additionalProperties and properties are mutual exclusive",
            );
        }
        if let Some(Value::Bool(false)) = source.get("x-kubernetes-preserve-unknown-fields") {
            let path = path.child("x-kubernetes-preserve-unknown-fields");
            errors.invalid(&path, false, "must be true or undefined");
        }
    }

    fn validate_merging(&mut self, source: &Map<String, Value>, path: &Path) {
        let text = |name: &str| source.get(name).and_then(Value::as_str);
        let (map_type, list_type) = (text("x-kubernetes-map-type"), text("x-kubernetes-list-type"));
        let kinds = [
            (map_type, "object", "must be object if x-kubernetes-map-type is specified"),
            (list_type, "array", "must be array if x-kubernetes-list-type is specified"),
        ];
        for (merging, kind, detail) in kinds {
            match text("type") {
                _ if merging.is_none() => {}
                Some(it) if it == kind => {}
                None | Some("") => self.errors.required(&path.child("type"), detail),
                Some(it) => self.errors.invalid(&path.child("type"), it, detail),
            }
        }
        if let Some(map_type) = map_type.filter(|it| !["atomic", "granular"].contains(it)) {
            let path = path.child("x-kubernetes-map-type");
            self.errors.not_supported(&path, map_type, &["atomic", "granular"]);
        }
        let path_type = path.child("x-kubernetes-list-type");
        let list_types = ["atomic", "set", "map"];
        if let Some(list_type) = list_type.filter(|it| !list_types.contains(it)) {
            self.errors.not_supported_as_listed(&path_type, list_type, &list_types);
        }
        let keys = source.get("x-kubernetes-list-map-keys").and_then(Value::as_array);
        let has_keys = keys.is_some_and(|it| !it.is_empty());
        let detail = "must be map if x-kubernetes-list-map-keys is non-empty";
        match (list_type, has_keys) {
            (None, true) => self.errors.required(&path_type, detail),
            (Some("map"), false) => self.errors.required(
                &path.child("x-kubernetes-list-map-keys"),
                "must not be empty if x-kubernetes-list-type is map",
            ),
            (Some(other), true) if other != "map" => {
                self.errors.invalid(&path_type, other, detail);
            }
            _ => {}
        }
    }
}

fn read_checks(
    source: &Map<String, Value>,
    path: &Path,
    errors: &mut FieldErrors,
) -> Option<Box<Value>> {
    for word in ["allOf", "anyOf", "oneOf"] {
        let branches = source.get(word).and_then(Value::as_array).into_iter().flatten();
        for (index, branch) in branches.enumerate() {
            validate_branch(branch, &path.child(word).index(index), errors);
        }
    }
    if let Some(branch) = source.get("not") {
        validate_branch(branch, &path.child("not"), errors);
    }
    let checks: Map<String, Value> =
        CHECKS.iter().filter_map(|it| Some(((*it).to_owned(), source.get(*it)?.clone()))).collect();
    (!checks.is_empty()).then(|| Box::new(Value::Object(checks)))
}

/// A branch may only restrict; what describes belongs outside.
fn validate_branch(branch: &Value, path: &Path, errors: &mut FieldErrors) {
    // The pattern of int-or-string fields is spelt with types, and allowed.
    let is_int_or_string =
        matches!(branch.get("type").and_then(Value::as_str), Some("integer" | "string"))
            && branch.as_object().is_some_and(|it| it.len() == 1);
    for word in ["type", "default", "nullable", "additionalProperties", "description"] {
        if branch.get(word).is_some() && !is_int_or_string {
            errors.forbidden(&path.child(word), BRANCH);
        }
    }
    forbid_rules(branch, path, errors);
}

/// Rules are for what describes, too. The depth was checked with the schema's.
fn forbid_rules(branch: &Value, path: &Path, errors: &mut FieldErrors) {
    const RULES: &str = "x-kubernetes-validations";
    let has_rules = branch.get(RULES).and_then(Value::as_array).is_some_and(|it| !it.is_empty());
    if has_rules {
        errors.forbidden(&path.child(RULES), BRANCH);
    }
    let Some(branch) = branch.as_object() else { return };
    for (word, value) in branch {
        let path = path.child(word);
        match (word.as_str(), value) {
            ("properties", Value::Object(fields)) => {
                fields.iter().for_each(|(name, it)| forbid_rules(it, &path.key(name), errors));
            }
            ("items" | "not", value) => forbid_rules(value, &path, errors),
            ("allOf" | "anyOf" | "oneOf", Value::Array(all)) => {
                let all = all.iter().enumerate();
                all.for_each(|(index, it)| forbid_rules(it, &path.index(index), errors));
            }
            _ => {}
        }
    }
}

/// The metadata of custom resources.
fn object_meta() -> SchemaRef {
    static META: OnceLock<Definitions> = OnceLock::new();
    let text = || json!({"type": "string"});
    let texts = || json!({"type": "object", "additionalProperties": {"type": "string"}});
    let definitions = META.get_or_init(|| {
        let owner = json!({
            "type": "object", "x-kubernetes-map-type": "atomic",
            "properties": {
                "apiVersion": text(), "kind": text(), "name": text(), "uid": text(),
                "controller": {"type": "boolean"}, "blockOwnerDeletion": {"type": "boolean"}
            }
        });
        let entry = json!({
            "type": "object",
            "properties": {
                "manager": text(), "operation": text(), "apiVersion": text(), "time": text(),
                "fieldsType": text(), "fieldsV1": {"type": "object"}, "subresource": text()
            }
        });
        Definitions::from_json(&json!({
            "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta": {
                "type": "object",
                "properties": {
                    "name": text(), "generateName": text(), "namespace": text(),
                    "selfLink": text(), "uid": text(), "resourceVersion": text(),
                    "generation": {"type": "integer", "format": "int64"},
                    "creationTimestamp": text(), "deletionTimestamp": text(),
                    "deletionGracePeriodSeconds": {"type": "integer", "format": "int64"},
                    "labels": texts(), "annotations": texts(),
                    "ownerReferences": {
                        "type": "array", "items": owner, "x-kubernetes-list-type": "map",
                        "x-kubernetes-list-map-keys": ["uid"],
                        "x-kubernetes-patch-merge-key": "uid", "x-kubernetes-patch-strategy": "merge"
                    },
                    "finalizers": {
                        "type": "array", "items": text(), "x-kubernetes-list-type": "set",
                        "x-kubernetes-patch-strategy": "merge"
                    },
                    "managedFields": {
                        "type": "array", "items": entry, "x-kubernetes-list-type": "atomic"
                    }
                }
            }
        }))
    });
    let name = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";
    definitions.get(name).cloned().unwrap_or_default()
}
