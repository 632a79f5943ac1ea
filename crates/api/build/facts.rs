//! What the API says of fields and the Rust types do not: how they merge, what they are when they are left out, which
//! values they may have. Each fact is a word in one of the lists, and a word that names no field is an error.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use crate::{Definitions, REF_PREFIX, members};

const MERGE_RULES: &str = "src/schemas/merge_rules.txt";
const DEFAULTS: &str = "src/schemas/defaults.txt";
const ENUMS: &str = "src/schemas/enums.txt";

pub(crate) fn add_to(definitions: &mut Definitions) {
    for_each_field(definitions, MERGE_RULES, ':', |target, rules| {
        rules.split(',').for_each(|rule| apply_rule(target, rule));
    });
    for_each_field(definitions, DEFAULTS, '=', |target, default| {
        let default = serde_json::from_str(default)
            .unwrap_or_else(|err| panic!("{DEFAULTS}: {default} is no JSON: {err}"));
        set_default(target, default);
    });
    for_each_field(definitions, ENUMS, '=', |target, values| {
        set_values(target, &values.split('|').collect::<Vec<_>>());
    });
    default_members(definitions);
}

/// One line per type: the type, then words of a field, `separator`, and what the list says of it. The field `*` is the type
/// itself, `field[]` are the items of a list.
fn for_each_field(
    definitions: &mut Definitions,
    list: &str,
    separator: char,
    mut apply: impl FnMut(&mut Map<String, Value>, &str),
) {
    let text = std::fs::read_to_string(list).unwrap_or_else(|err| panic!("{list}: {err}"));
    for line in text.lines().filter(|it| !it.is_empty() && !it.starts_with('#')) {
        let mut words = line.split_whitespace();
        let name = words.next().expect("a line that is not empty has a word");
        let schema = definitions
            .get_mut(name)
            .unwrap_or_else(|| panic!("{list} names {name}, which no served kind refers to"));
        for word in words {
            let (field, fact) = word
                .split_once(separator)
                .unwrap_or_else(|| panic!("{list}: {word} has no {separator:?} after the field"));
            let target = field_of(schema, field)
                .unwrap_or_else(|| panic!("{list}: {name} has no field {field}"));
            apply(members(target), fact);
        }
    }
}

fn field_of<'a>(schema: &'a mut Value, field: &str) -> Option<&'a mut Value> {
    if field == "*" {
        return Some(schema);
    }
    let properties = schema.get_mut("properties")?;
    match field.strip_suffix("[]") {
        Some(list) => properties.get_mut(list)?.get_mut("items"),
        None => properties.get_mut(field),
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
        Some(("list", kind)) => set("list-type", json!(kind)),
        Some(("map", kind)) => set("map-type", json!(kind)),
        None => {
            if !argument.is_empty() {
                set("patch-merge-key", json!(argument));
            }
            set("patch-strategy", json!(rule.replace('+', ",")));
        }
        Some(_) => panic!("{MERGE_RULES}: unknown rule {rule}"),
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
fn set_values(target: &mut Map<String, Value>, values: &[&str]) {
    target.insert("enum".to_owned(), json!(values));
    if let Some(Value::String(description)) = target.get_mut("description") {
        description.push_str("\n\nPossible enum values:");
        for value in values {
            description.push_str(&format!("\n - `{value:?}`"));
        }
    }
}

/// Items and the values of maps are never null: each has the zero of its type. Only types that write themselves in a form of
/// their own (quantities, bytes, free JSON) have none; those have no fields.
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
