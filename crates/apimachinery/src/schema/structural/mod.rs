//! Reading the schema of a custom resource, which must be structural: every field has a type, and
//! value checks in allOf, anyOf, oneOf and not only restrict what the outer schema already
//! describes.

mod branches;
mod invariants;
mod standard;

use std::collections::BTreeSet;
use std::sync::{Arc, OnceLock};

use serde_json::{Map, Value, json};

use super::definitions::{Definitions, read_extensions, read_type};
use super::values::{branches, compile, patterns_of};
use super::{Schema, SchemaRef, Type};
use crate::field::{FieldErrors, Path};
use standard::Standard;

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
/// Of the JSON that a schema is written in: a field in it is two levels.
const DEPTH_MAX: usize = 300;
/// Different patterns in one schema: each has to be compiled.
const PATTERNS_MAX: usize = 2_000;

/// What is wrong with a schema as it is written, by what it keeps from being done next.
#[derive(Debug, Default)]
pub struct Problems {
    /// What it lacks to be structural, in the order of the texts. Nothing is said of a schema that has
    /// words which no structural one has.
    pub structure: FieldErrors,
    /// Whether it has none of those words, so that there is a structural schema to look at.
    pub is_structural: bool,
    /// What is wrong by OpenAPI, and with how its lists and maps merge.
    pub standard: FieldErrors,
}

pub(super) fn read(schema: &Value, path: &Path) -> (SchemaRef, Problems) {
    let empty = Map::new();
    let source = schema.as_object().unwrap_or(&empty);
    let mut root = read_node(source, 0);
    add_type_and_metadata(&mut root);
    root.n_branches = n_branches(&root);
    let mut problems = Problems::default();
    if is_deeper_than(DEPTH_MAX, schema) {
        problems.structure.invalid(path, "", "the schema is nested too deeply");
        return (Arc::new(root), problems);
    }
    let Standard { errors, is_left } = Standard::of(source, path);
    problems.standard = errors;
    let mut structure = FieldErrors::new();
    if !is_left {
        invariants::validate(source, path, &mut structure);
        validate_patterns(&root, path, &mut structure);
    } else if problems.standard.is_empty() {
        structure.invalid(path, "", "OpenAPIV3Schema 'schema' is not supported");
    }
    problems.structure = structure.sorted();
    problems.is_structural = !is_left && problems.structure.is_empty();
    (Arc::new(root), problems)
}

fn is_deeper_than(levels: usize, value: &Value) -> bool {
    let Some(levels) = levels.checked_sub(1) else { return true };
    match value {
        Value::Object(fields) => fields.values().any(|it| is_deeper_than(levels, it)),
        Value::Array(items) => items.iter().any(|it| is_deeper_than(levels, it)),
        _ => false,
    }
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

fn validate_patterns(root: &Schema, path: &Path, errors: &mut FieldErrors) {
    let mut patterns = BTreeSet::new();
    patterns_below(root, &mut patterns);
    if patterns.len() > PATTERNS_MAX {
        errors.too_many(&path.child("pattern"), patterns.len(), PATTERNS_MAX);
        return;
    }
    for pattern in patterns {
        if let Err(err) = compile(pattern) {
            let detail = format!("must be a valid regular expression, but isn't: {err}");
            errors.invalid(&path.child("pattern"), pattern, &detail);
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

fn read_node(source: &Map<String, Value>, depth: usize) -> Schema {
    let mut schema = Schema { kind: read_type(source), ..read_extensions(source) };
    if depth > DEPTH_MAX {
        return schema;
    }
    text(source, "description").clone_into(&mut schema.description);
    let fields = source.get("properties").and_then(Value::as_object).into_iter().flatten();
    let fields = fields.map(|(name, field)| (name.clone(), read_child(field, depth)));
    schema.properties = fields.collect();
    schema.items = source.get("items").map(|it| read_child(it, depth));
    let more = source.get("additionalProperties");
    schema.is_sealed = more == Some(&Value::Bool(false));
    schema.additional = match more {
        None | Some(Value::Null) => None,
        // What is forbidden is kept, to be refused.
        Some(Value::Bool(_)) => Some(Arc::default()),
        Some(values) => Some(read_child(values, depth)),
    };
    // What an object has is what is named, also if that is nothing.
    schema.is_closed = schema.kind == Type::Object;
    if schema.is_embedded_resource {
        add_type_and_metadata(&mut schema);
    }
    let checks = CHECKS.iter().filter_map(|it| Some(((*it).to_owned(), source.get(*it)?.clone())));
    let checks: Map<String, Value> = checks.collect();
    schema.checks = (!checks.is_empty()).then(|| Box::new(Value::Object(checks)));
    schema
}

/// Of what is no schema at all, anything is one.
fn read_child(source: &Value, depth: usize) -> SchemaRef {
    let Some(source) = source.as_object() else { return Arc::default() };
    Arc::new(read_node(source, depth + 1))
}

fn flag(source: &Map<String, Value>, key: &str) -> bool {
    source.get(key).and_then(Value::as_bool).unwrap_or_default()
}

fn text<'a>(source: &'a Map<String, Value>, key: &str) -> &'a str {
    source.get(key).and_then(Value::as_str).unwrap_or_default()
}

fn list<'a>(source: &'a Map<String, Value>, key: &str) -> &'a [Value] {
    source.get(key).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// Go's zero values, which are as good as absent.
fn is_nothing(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => true,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        Value::Bool(true) | Value::Number(_) => false,
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
