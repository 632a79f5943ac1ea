//! What is published of a group and version as OpenAPI, in parts that are compared one by one. Pure.

use serde_json::{Map, Value};

/// Of a document of version 2 or 3: schemas without descriptions, descriptions, operations.
pub(crate) fn parts(document: &Value, group: &str, version: &str) -> [(&'static str, Value); 3] {
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
    let operations = operations(&chosen(&document["paths"], &root));
    [
        ("schemas", schemas),
        ("descriptions", Value::Object(descriptions)),
        ("operations", operations),
    ]
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

/// What generators of clients go by. What parameters are for each server says in its own words.
fn operations(paths: &Value) -> Value {
    let mut found = Map::new();
    for (path, item) in paths.as_object().into_iter().flatten() {
        let methods = item.as_object().into_iter().flatten().filter(|(it, _)| *it != "parameters");
        for (method, operation) in methods {
            let words =
                ["operationId", "tags", "x-kubernetes-action", "x-kubernetes-group-version-kind"];
            let said = words.map(|it| (it.to_owned(), operation[it].clone()));
            let said = said.into_iter().collect::<Map<_, _>>();
            found.insert(format!("{method} {path}"), Value::Object(said));
        }
    }
    Value::Object(found)
}
