//! What is published of a group and version as OpenAPI, in parts that are compared one by one. Pure.

use serde_json::{Map, Value, json};

/// Of a document of version 2 or 3: schemas without descriptions, descriptions, operations, what
/// these have in common, and what else there is in a document of one version.
pub(crate) fn parts(document: &Value, group: &str, version: &str) -> [(&'static str, Value); 5] {
    let reversed: Vec<&str> = group.split('.').rev().collect();
    let prefix = format!("{}.{version}.", reversed.join("."));
    let root = format!("/apis/{group}/{version}");
    let schemas = match &document["definitions"] {
        Value::Null => &document["components"]["schemas"],
        definitions => definitions,
    };
    let own = chosen(schemas, &prefix);
    let mut descriptions = Map::new();
    let schemas = without_descriptions(&own, "", &mut descriptions);
    let operations = chosen(&document["paths"], &root);
    let shared = shared(document, &operations);
    [
        ("schemas", schemas),
        ("descriptions", Value::Object(descriptions)),
        ("operations", operations),
        ("shared parameters", shared),
        ("outline", outline(document)),
    ]
}

/// The parameters that operations refer to.
fn shared(document: &Value, operations: &Value) -> Value {
    let text = operations.to_string();
    let names = text.split("#/parameters/").skip(1).filter_map(|it| it.split('"').next());
    let named = names.map(|it| (it.to_owned(), document["parameters"][it].clone()));
    named.collect::<Map<_, _>>().into()
}

/// A document of version 2 is about all groups of a server.
fn outline(document: &Value) -> Value {
    if document["openapi"].is_null() {
        return Value::Null;
    }
    let names = document["components"]["schemas"].as_object().into_iter().flatten();
    let names: Vec<&String> = names.map(|it| it.0).collect();
    json!({"openapi": document["openapi"], "info": document["info"], "schemas": names})
}

fn chosen(all: &Value, prefix: &str) -> Value {
    let all = all.as_object().into_iter().flatten();
    let all = all.filter(|(name, _)| name.starts_with(prefix));
    all.map(|(name, it)| (name.clone(), it.clone())).collect::<Map<_, _>>().into()
}

fn without_descriptions(value: &Value, path: &str, found: &mut Map<String, Value>) -> Value {
    match value {
        Value::Object(fields) => {
            let mut kept = Map::new();
            for (name, it) in fields {
                let path = format!("{path}/{name}");
                if name == "description" && it.is_string() {
                    found.insert(path, it.clone());
                } else {
                    kept.insert(name.clone(), without_descriptions(it, &path, found));
                }
            }
            Value::Object(kept)
        }
        Value::Array(items) => {
            let items = items.iter().enumerate();
            items.map(|(n, it)| without_descriptions(it, &format!("{path}/{n}"), found)).collect()
        }
        other => other.clone(),
    }
}
