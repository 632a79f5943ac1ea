//! The schema of a version, in upstream's order: what its root may have, whether it is structural, what
//! its defaults are, what OpenAPI says, and its rules. Each looks only at what the ones before let pass.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::JSONSchemaProps;
use serde_json::Value;

use apimachinery::cel::OBJECT_BUDGET;
use apimachinery::cel::rules::{Before, Costs, Outcome, Rules, validate_definition};
use apimachinery::cel::schema::Role;
use apimachinery::field::Cause;
use apimachinery::schema::{Schema, SchemaRef};
use apimachinery::{FieldErrors, Path};

use crate::codec;

/// Names in Go and in JSON of what a root may have beside a status that is written apart.
const AT_ROOT: [(&str, &str); 22] = [
    ("Description", "description"),
    ("Type", "type"),
    ("Format", "format"),
    ("Title", "title"),
    ("Maximum", "maximum"),
    ("ExclusiveMaximum", "exclusiveMaximum"),
    ("Minimum", "minimum"),
    ("ExclusiveMinimum", "exclusiveMinimum"),
    ("MaxLength", "maxLength"),
    ("MinLength", "minLength"),
    ("Pattern", "pattern"),
    ("MaxItems", "maxItems"),
    ("MinItems", "minItems"),
    ("UniqueItems", "uniqueItems"),
    ("MultipleOf", "multipleOf"),
    ("Required", "required"),
    ("Items", "items"),
    ("Properties", "properties"),
    ("ExternalDocs", "externalDocs"),
    ("Example", "example"),
    ("XPreserveUnknownFields", "x-kubernetes-preserve-unknown-fields"),
    ("XValidations", "x-kubernetes-validations"),
];
const TYPES: &[&str] = &["array", "boolean", "integer", "number", "object", "string"];

pub(super) fn validate(
    written: &JSONSchemaProps,
    has_status: bool,
    costs: Costs,
    path: &Path,
    errors: &mut FieldErrors,
) -> SchemaRef {
    let tree = codec::tree(written);
    let path = path.child("openAPIV3Schema");
    let mut found = FieldErrors::new();
    if has_status {
        validate_root(&tree, &path, &mut found);
    }
    if written.nullable == Some(true) {
        found.forbidden(&path.child("nullable"), "nullable cannot be true at the root");
    }
    let (schema, problems) = Schema::judge_open_api(&tree, &path);
    found.extend(problems.structure);
    if problems.is_structural {
        let mut budget = Some(OBJECT_BUDGET);
        validate_defaults((&schema, &tree), &path, &mut budget, &mut found);
    }
    found.extend(problems.standard);
    let is_sound = found.is_empty();
    errors.extend(found);
    validate_definition(&schema, &path, (is_sound, costs), errors);
    schema
}

/// The schema of the status is taken out of that of the object: nothing else may speak of it.
fn validate_root(tree: &Value, path: &Path, errors: &mut FieldErrors) {
    let Some(words) = tree.as_object() else { return };
    let is_said =
        |value: &Value| !matches!(value, Value::Null | Value::Bool(false)) && *value != "";
    let is_allowed = |word: &str| AT_ROOT.iter().any(|(_, it)| *it == word);
    let mut others = words.iter().filter(|(word, value)| !is_allowed(word) && is_said(value));
    let comes_first = |word: &str| ["id", "$schema", "$ref"].contains(&word);
    let kind = words.get("type").and_then(Value::as_str).unwrap_or_default();
    let is_odd = !kind.is_empty() && kind != "object";
    if is_odd && !others.clone().any(|(word, _)| comes_first(word)) {
        let detail = "only \"object\" is allowed as the type at the root of the schema if the status \
                      subresource is enabled";
        errors.invalid(&path.child("type"), kind, detail);
    } else if others.next().is_some() {
        let names: Vec<&str> = AT_ROOT.iter().map(|(name, _)| *name).collect();
        let detail = format!(
            "only [{}] fields are allowed at the root of the schema if the status subresource is \
             enabled",
            names.join(" ")
        );
        errors.invalid(path, tree.clone(), &detail);
    }
}

/// Every object has these, and they come from elsewhere.
fn is_given(name: &str) -> bool {
    ["apiVersion", "kind", "metadata"].contains(&name)
}

/// Defaults must pass what they are a default for. The reader of the schema bounds its depth.
fn validate_defaults(
    (schema, written): (&SchemaRef, &Value),
    path: &Path,
    budget: &mut Outcome,
    errors: &mut FieldErrors,
) {
    if let Some(default) = schema.default.as_ref().filter(|it| !it.is_null()) {
        let path = path.child("default");
        if !schema.prune(&mut default.clone()).is_empty() {
            errors.invalid(&path, default.clone(), "must not have unknown fields");
        }
        // What is said of the value itself leaves out where it is.
        let mut found = FieldErrors::new();
        validate_type(written, default, &path, &mut found);
        schema.validate(default, &path, &mut found);
        if found.is_empty() {
            validate_default(schema, default, &path, budget, errors);
        }
        for it in found.iter() {
            errors.push(&it.path, it.cause, it.message.replacen(&format!("{path} in"), " in", 1));
        }
    }
    if let Some(items) = &schema.items {
        validate_defaults((items, &written["items"]), &path.child("items"), budget, errors);
    }
    // What every object has is not the author's to mend.
    let children = schema.properties.iter();
    let children = children.filter(|(name, _)| !schema.has_given_metadata || !is_given(name));
    for (name, child) in children {
        let path = path.child("properties").key(name);
        validate_defaults((child, &written["properties"][name]), &path, budget, errors);
    }
}

/// A default is of no type that there is not.
fn validate_type(written: &Value, default: &Value, path: &Path, errors: &mut FieldErrors) {
    let kind = written["type"].as_str().unwrap_or_default();
    if kind.is_empty() || TYPES.contains(&kind) {
        return;
    }
    let found = match default {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_f64() => "number",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    };
    let message =
        format!("Invalid value: {found:?}: {path} in body must be of type {kind}: {found:?}");
    errors.push(path, Cause::TypeInvalid, message);
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
