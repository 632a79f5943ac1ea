//! What the API says of fields and the Rust types do not: how they merge, what they are when they
//! are left out, which values they may have. A type whose fields are not those that `facts/` has of
//! it stops the build.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

use crate::facts::{Count, Facts, Field, Type};
use crate::{Definitions, REF_PREFIX, members};

pub(crate) fn add_to(definitions: &mut Definitions, facts: &Facts) {
    let types = facts.types();
    for (name, schema) in definitions.iter_mut() {
        let Some(type_) = types.get(name) else {
            assert!(!has_facts(name, schema), "no file in facts/ has the type {name}");
            continue;
        };
        for rule in &type_.rules {
            apply_rule(members(schema), rule);
        }
        let fields = flat_fields(type_, facts, &types);
        validate_names(name, schema, &fields);
        for field in &fields {
            add_field(&mut schema["properties"][&field.name], field);
        }
    }
    default_members(definitions);
}

/// How Go names the types of fields, for what is said of values of another one. Not a part of OpenAPI.
pub(crate) fn add_go_types(definitions: &mut Definitions, facts: &Facts) {
    let types = facts.types();
    for (name, schema) in definitions.iter_mut() {
        let Some(type_) = types.get(name) else { continue };
        for field in flat_fields(type_, facts, &types) {
            let property = members(&mut schema["properties"][&field.name]);
            if !field.embedded.is_empty() {
                property.insert("x-go-embedded".to_owned(), json!(field.embedded));
            }
            if let Some(go) = &field.go {
                set_go_type(property, go);
            }
        }
    }
}

/// With that of what is in it: `[]v1.Capability` has `v1.Capability`.
fn set_go_type(schema: &mut Map<String, Value>, go: &str) {
    schema.insert("x-go-type".to_owned(), json!(go));
    let of_map = go.strip_prefix("map[").and_then(|it| it.split_once(']')).map(|it| it.1);
    for (keyword, of) in [("items", go.strip_prefix("[]")), ("additionalProperties", of_map)] {
        if let (Some(Value::Object(member)), Some(of)) = (schema.get_mut(keyword), of) {
            set_go_type(member, of);
        }
    }
}

/// Lists are all alike, and some types write themselves in a form of their own.
fn has_facts(name: &str, schema: &Value) -> bool {
    schema.get("properties").is_some() && !name.ends_with("List")
}

/// As JSON shows them: with those of inlined types.
pub(crate) fn flat_fields(
    type_: &Type,
    facts: &Facts,
    types: &BTreeMap<String, &Type>,
) -> Vec<Field> {
    let inner = |field: &Field| {
        let name = facts.definition(&field.shape.of);
        let inner = types.get(&name).unwrap_or_else(|| panic!("facts/ has no type {name}"));
        let mut fields = flat_fields(inner, facts, types);
        for it in &mut fields {
            let dot = if it.embedded.is_empty() { "" } else { "." };
            it.embedded = format!("{}{dot}{}", inner.name, it.embedded);
        }
        fields
    };
    let fields = type_.fields.iter();
    fields.flat_map(|it| if it.name == "*" { inner(it) } else { vec![it.clone()] }).collect()
}

fn validate_names(name: &str, schema: &Value, fields: &[Field]) {
    let known: BTreeSet<&str> = fields.iter().map(|it| &*it.name).collect();
    let properties = schema.get("properties").and_then(Value::as_object);
    let found = properties.into_iter().flat_map(|it| it.keys()).map(String::as_str);
    let is_of_object = |it: &&str| matches!(*it, "apiVersion" | "kind") && !known.contains(it);
    let found: BTreeSet<&str> = found.filter(|it| !is_of_object(it)).collect();
    assert_eq!(known, found, "facts/ has other fields (left) of {name} than k8s-openapi (right)");
}

fn add_field(property: &mut Value, field: &Field) {
    let target = members(property);
    for rule in &field.rules {
        apply_rule(target, rule);
    }
    if let Some(default) = field.default.clone().or_else(|| default_of(field)) {
        set_default(target, default);
    }
    if !field.values.is_empty() {
        let target = if field.is_of_items { members(&mut target["items"]) } else { target };
        set_values(target, &field.values);
    }
}

/// A field that JSON always has is its zero when it is left out. Those of types that write
/// themselves in a form of their own have no zero.
fn default_of(field: &Field) -> Option<Value> {
    match (field.shape.count, &*field.shape.of) {
        (Count::One, "string") => Some(json!("")),
        (Count::One, "int32" | "int64" | "double") => Some(json!(0)),
        (Count::One, "bool") => Some(json!(false)),
        (Count::One, _) if field.shape.is_type() => Some(json!({})),
        _ => None,
    }
}

/// `list=map(a+b)`, `list=set`, `map=atomic`, `merge(key)`, `merge`, `retainKeys`.
fn apply_rule(target: &mut Map<String, Value>, rule: &str) {
    let (rule, argument) = match rule.split_once('(') {
        Some((rule, rest)) => (rule, rest.trim_end_matches(')')),
        None => (rule, ""),
    };
    let mut set = |name: &str, value: Value| {
        target.insert(format!("x-kubernetes-{name}"), value);
    };
    match rule.split_once('=') {
        Some(("list", "map")) => {
            set("list-type", json!("map"));
            set("list-map-keys", argument.split('+').collect());
        }
        Some(("list", kind @ ("atomic" | "set"))) => set("list-type", json!(kind)),
        Some(("map", kind)) => set("map-type", json!(kind)),
        None if ["merge", "replace", "retainKeys", "merge+retainKeys"].contains(&rule) => {
            if !argument.is_empty() {
                set("patch-merge-key", json!(argument));
            }
            set("patch-strategy", json!(rule.replace('+', ",")));
        }
        _ => panic!("facts/ has an unknown rule: {rule}"),
    }
}

/// OpenAPI ignores the neighbors of a `$ref`, so that it moves into `allOf`.
fn set_default(target: &mut Map<String, Value>, default: Value) {
    if let Some(Value::String(reference)) = target.remove("$ref") {
        target.insert("allOf".to_owned(), json!([{ "$ref": reference }]));
    }
    target.insert("default".to_owned(), default);
}

/// Clients that know no enums read the values in the description.
fn set_values(target: &mut Map<String, Value>, values: &[String]) {
    target.insert("enum".to_owned(), json!(values));
    if let Some(Value::String(description)) = target.get_mut("description") {
        description.push_str("\n\nPossible enum values:");
        for value in values {
            description.push_str(&format!("\n - `{value:?}`"));
        }
    }
}

/// Items and the values of maps are never null: each has the zero of its type. Only types that
/// write themselves in a form of their own (quantities, bytes, free JSON) have none; those have no
/// fields.
fn default_members(definitions: &mut Definitions) {
    let with_fields: BTreeSet<String> = definitions
        .iter()
        .filter(|(_, schema)| schema.get("properties").is_some())
        .map(|(name, _)| name.clone())
        .collect();
    for schema in definitions.values_mut() {
        let properties = schema.get_mut("properties").and_then(Value::as_object_mut);
        for property in properties.into_iter().flat_map(|it| it.values_mut()) {
            default_members_of(property, &with_fields);
        }
    }
}

fn default_members_of(schema: &mut Value, with_fields: &BTreeSet<String>) {
    let Value::Object(schema) = schema else { return };
    for keyword in ["items", "additionalProperties"] {
        let Some(member) = schema.get_mut(keyword) else { continue };
        default_members_of(member, with_fields);
        if let (Some(zero), Value::Object(member)) = (zero_of(member, with_fields), member) {
            set_default(member, zero);
        }
    }
}

fn zero_of(schema: &Value, with_fields: &BTreeSet<String>) -> Option<Value> {
    let text = |keyword: &str| schema.get(keyword).and_then(Value::as_str);
    if let Some(reference) = text("$ref") {
        let name = reference.strip_prefix(REF_PREFIX)?;
        return with_fields.contains(name).then(|| json!({}));
    }
    match (text("type")?, text("format")) {
        ("string", Some("byte")) => None,
        ("string", _) => Some(json!("")),
        ("integer", _) => Some(json!(0)),
        ("boolean", _) => Some(json!(false)),
        _ => None,
    }
}
