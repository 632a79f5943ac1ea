//! What always holds of a structural schema, outside of branches: every node has a type, and those that
//! are whole resources (the root, and those that say so by `x-kubernetes-embedded-resource`) are objects
//! with an identity.

use serde_json::{Map, Value};

use super::{branches, flag, is_nothing, text};
use crate::field::{FieldErrors, Path};

const EMBEDDED: &str = "x-kubernetes-embedded-resource";
const OPEN: &str = "x-kubernetes-preserve-unknown-fields";
const INT_OR_STRING: &str = "x-kubernetes-int-or-string";

#[derive(Clone, Copy, PartialEq, Eq)]
enum Level {
    Root,
    Item,
    Field,
}

type Source = Map<String, Value>;

/// The reader of the schema bounds its depth.
pub(super) fn validate(root: &Source, path: &Path, errors: &mut FieldErrors) {
    validate_node(root, Level::Root, path, errors);
    branches::validate_completeness(root, path, errors);
}

fn validate_node(source: &Source, level: Level, path: &Path, errors: &mut FieldErrors) {
    let items = source.get("items").and_then(Value::as_object);
    if text(source, "type") == "array" && items.is_none() {
        errors.required(&path.child("items"), "must be specified");
    }
    if let Some(items) = items {
        validate_node(items, Level::Item, &path.child("items"), errors);
    }
    for (name, field) in fields(source).into_iter().flatten() {
        if let Value::Object(field) = field {
            validate_node(field, Level::Field, &path.child("properties").key(name), errors);
        }
    }
    if let Some(Value::Object(values)) = source.get("additionalProperties") {
        validate_node(values, Level::Field, &path.child("additionalProperties"), errors);
    }
    validate_exclusions(source, path, errors);
    branches::validate(source, path, errors);
    validate_type(source, level, path, errors);
    validate_resource(source, level == Level::Root, path, errors);
}

fn validate_resource(source: &Source, is_root: bool, path: &Path, errors: &mut FieldErrors) {
    let is_embedded = flag(source, EMBEDDED);
    let more = path.child("additionalProperties");
    let has_more = matches!(source.get("additionalProperties"), Some(it) if *it != Value::Null);
    if has_more && is_root {
        errors.forbidden(&more, "must not be used at the root");
    }
    if has_more && is_embedded {
        let detail = "must not be used if x-kubernetes-embedded-resource is set";
        errors.forbidden(&more, detail);
    }
    if is_root || is_embedded {
        validate_identity(source, is_root, &path.child("properties"), errors);
    }
    if is_embedded && !flag(source, OPEN) && fields(source).is_none_or(Map::is_empty) {
        let detail = "must not be empty if x-kubernetes-embedded-resource is true without \
                      x-kubernetes-preserve-unknown-fields";
        errors.required(&path.child("properties"), detail);
    }
}

fn validate_exclusions(source: &Source, path: &Path, errors: &mut FieldErrors) {
    if flag(source, INT_OR_STRING) {
        for word in [OPEN, EMBEDDED].iter().filter(|it| flag(source, it)) {
            let detail = "must be false if x-kubernetes-int-or-string is true";
            errors.invalid(&path.child(word), true, detail);
        }
    }
}

fn validate_type(source: &Source, level: Level, path: &Path, errors: &mut FieldErrors) {
    let path = path.child("type");
    let kind = text(source, "type");
    if flag(source, EMBEDDED) && kind != "object" {
        let detail = "must be object if x-kubernetes-embedded-resource is true";
        match kind {
            "" => errors.required(&path, detail),
            other => errors.invalid(&path, other, detail),
        }
    } else if kind.is_empty() && !flag(source, INT_OR_STRING) && !flag(source, OPEN) {
        let place = match level {
            Level::Root => "at the root",
            Level::Item => "for specified array items",
            Level::Field => "for specified object fields",
        };
        errors.required(&path, &format!("must not be empty {place}"));
    }
    if level == Level::Root && !kind.is_empty() && kind != "object" {
        errors.invalid(&path, kind, "must be object at the root");
    }
}

/// `kind`, `apiVersion` and `metadata` are what they are in every object.
fn validate_identity(source: &Source, is_root: bool, path: &Path, errors: &mut FieldErrors) {
    let named = |name: &str| fields(source)?.get(name)?.as_object();
    for name in ["kind", "apiVersion"] {
        if let Some(kind) = named(name).map(|it| text(it, "type")).filter(|it| *it != "string") {
            errors.invalid(&path.key(name).child("type"), kind, "must be string");
        }
    }
    let Some(metadata) = named("metadata") else { return };
    let path = path.key("metadata");
    if text(metadata, "type") != "object" {
        errors.invalid(&path.child("type"), text(metadata, "type"), "must be object");
    }
    if is_root && says_more_than_names(metadata) {
        errors.forbidden(
            &path,
            "must not specify anything other than name and generateName, but metadata is implicitly \
             specified",
        );
    }
}

/// A default is judged where all defaults are.
fn says_more_than_names(metadata: &Source) -> bool {
    metadata.iter().any(|(word, value)| match (word.as_str(), value) {
        ("type" | "default", _) => false,
        ("properties", Value::Object(fields)) => {
            fields.keys().any(|it| it != "name" && it != "generateName")
        }
        (_, value) => !is_nothing(value),
    })
}

fn fields(source: &Source) -> Option<&Source> {
    source.get("properties").and_then(Value::as_object)
}
