//! OpenAPI v2 of another server, merged into ours: the paths of one version, and the definitions
//! that these need. A definition that has the name of one of ours and says something else gets
//! another name.

use std::collections::{BTreeMap, BTreeSet};

use apimachinery::GroupVersion;
use serde_json::{Map, Value};

use super::v2::{PARAMETERS, PREFIX};

/// What cannot be read adds nothing.
pub(super) fn add(own: &mut Value, version: &GroupVersion, document: &[u8]) {
    let Ok(Value::Object(mut other)) = serde_json::from_slice::<Value>(document) else { return };
    let paths = taken(other.remove("paths"), version);
    let definitions = match other.remove("definitions") {
        Some(Value::Object(definitions)) => definitions,
        _ => Map::new(),
    };
    let parameters = shared(own, other.remove("parameters"), &paths);
    let needed = reachable(&definitions, paths.values().chain(parameters.values()));
    let (mut added, mut renamed) = (Vec::new(), BTreeMap::new());
    for name in needed {
        let Some(schema) = definitions.get(&name) else { continue };
        match own["definitions"].get(&name) {
            Some(ours) if ours == schema => {}
            Some(_) => {
                let free = free_name(own, &definitions, &name);
                renamed.insert(name.clone(), free.clone());
                added.push((free, schema.clone()));
            }
            None => added.push((name, schema.clone())),
        }
    }
    let mut paths = Value::Object(paths);
    rename(&mut paths, &renamed);
    for (name, mut parameter) in parameters {
        rename(&mut parameter, &renamed);
        insert(own, "parameters", name, parameter);
    }
    for (name, mut schema) in added {
        rename(&mut schema, &renamed);
        insert(own, "definitions", name, schema);
    }
    // What this server would have served itself is not what is served.
    let prefix = format!("/apis/{version}/");
    if let Some(Value::Object(ours)) = own.get_mut("paths") {
        ours.retain(|path, _| !path.starts_with(&prefix));
    }
    let Value::Object(paths) = paths else { return };
    for (path, item) in paths {
        insert(own, "paths", path, item);
    }
}

fn insert(own: &mut Value, field: &str, name: String, value: Value) {
    if let Some(Value::Object(fields)) = own.get_mut(field) {
        fields.insert(name, value);
    }
}

/// The parameters that are said once and that `paths` refer to. They are named by what they say: one
/// that we have as well is the same.
fn shared(
    own: &Value,
    parameters: Option<Value>,
    paths: &Map<String, Value>,
) -> Map<String, Value> {
    let Some(Value::Object(parameters)) = parameters else { return Map::new() };
    let wanted = named(PARAMETERS, paths.values());
    let is_new = |it: &String| wanted.contains(it) && own["parameters"].get(it).is_none();
    parameters.into_iter().filter(|(name, _)| is_new(name)).collect()
}

/// Those of the version alone.
fn taken(paths: Option<Value>, version: &GroupVersion) -> Map<String, Value> {
    let Some(Value::Object(paths)) = paths else { return Map::new() };
    let prefix = format!("/apis/{version}/");
    paths.into_iter().filter(|(path, _)| path.starts_with(&prefix)).collect()
}

fn reachable<'a>(
    definitions: &Map<String, Value>,
    from: impl Iterator<Item = &'a Value>,
) -> BTreeSet<String> {
    let mut open: Vec<String> = named(PREFIX, from).into_iter().collect();
    let mut found = BTreeSet::new();
    while let Some(name) = open.pop() {
        let Some(schema) = definitions.get(&name) else { continue };
        if found.insert(name) {
            references(PREFIX, schema, &mut open);
        }
    }
    found
}

/// The names that are referred to.
fn named<'a>(prefix: &str, values: impl Iterator<Item = &'a Value>) -> BTreeSet<String> {
    let mut found = Vec::new();
    values.for_each(|it| references(prefix, it, &mut found));
    found.into_iter().collect()
}

fn references(prefix: &str, value: &Value, found: &mut Vec<String>) {
    match value {
        Value::Object(fields) => {
            for (key, value) in fields {
                match value.as_str().and_then(|it| it.strip_prefix(prefix)) {
                    Some(name) if key == "$ref" => found.push(name.to_owned()),
                    _ => references(prefix, value, found),
                }
            }
        }
        Value::Array(values) => values.iter().for_each(|it| references(prefix, it, found)),
        _ => {}
    }
}

fn rename(value: &mut Value, names: &BTreeMap<String, String>) {
    if names.is_empty() {
        return;
    }
    match value {
        Value::Object(fields) => {
            for (key, value) in fields {
                match value {
                    Value::String(text) if key == "$ref" => {
                        let name = text.strip_prefix(PREFIX).and_then(|it| names.get(it));
                        if let Some(name) = name {
                            *text = format!("{PREFIX}{name}");
                        }
                    }
                    value => rename(value, names),
                }
            }
        }
        Value::Array(values) => values.iter_mut().for_each(|it| rename(it, names)),
        _ => {}
    }
}

/// `Name_v2`, and so on.
fn free_name(own: &Value, others: &Map<String, Value>, name: &str) -> String {
    let is_free = |it: &String| own["definitions"].get(it).is_none() && !others.contains_key(it);
    let mut names = (2..).map(|it| format!("{name}_v{it}"));
    names.find(is_free).unwrap_or_else(|| name.to_owned())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_about_the_version_is_added_and_nothing_is_overwritten() {
        let reference = |name: &str| json!({"$ref": format!("#/definitions/{name}")});
        let parameter = |name: &str| json!({"$ref": format!("#/parameters/{name}")});
        let mut own = json!({
            "paths": {"/api/v1/pods": {}, "/apis/example.org/v1/mine": {}},
            "parameters": {"watch-1": {"name": "watch"}},
            "definitions": {"Meta": {"type": "object"}, "Status": {"type": "object"}},
        });
        let other = json!({
            "paths": {
                "/apis/example.org/v1/flunders": {
                    "get": {"schema": reference("Flunder")},
                    "parameters": [parameter("body-1"), parameter("watch-1")],
                },
                "/apis/other.org/v1/flunders": {"get": {"schema": reference("Other")}},
                "/api/v1/pods": {"get": {}},
                "/apis/example.org/v10/x": {},
            },
            "definitions": {
                "Flunder": {"properties": {"metadata": reference("Meta"), "status": reference("Status")}},
                "Meta": {"type": "string"},
                "Status": {"type": "object"},
                "Other": {"type": "object"},
            },
            "parameters": {
                "body-1": {"schema": reference("Meta")}, "watch-1": {"name": "theirs"},
                "unused-1": {"schema": reference("Other")},
            },
        });
        let version = GroupVersion::new("example.org", "v1");
        add(&mut own, &version, other.to_string().as_bytes());
        assert_eq!(
            own,
            json!({
                "paths": {
                    "/api/v1/pods": {},
                    "/apis/example.org/v1/flunders": {
                        "get": {"schema": reference("Flunder")},
                        "parameters": [parameter("body-1"), parameter("watch-1")],
                    },
                },
                "parameters": {
                    "body-1": {"schema": reference("Meta_v2")}, "watch-1": {"name": "watch"},
                },
                "definitions": {
                    "Flunder": {"properties": {"metadata": reference("Meta_v2"), "status": reference("Status")}},
                    "Meta": {"type": "object"},
                    "Meta_v2": {"type": "string"},
                    "Status": {"type": "object"},
                },
            })
        );
        for garbage in ["", "[]", "{\"paths\": 7}", "{\"definitions\": []}"] {
            let before = own.clone();
            add(&mut own, &GroupVersion::new("x.org", "v1"), garbage.as_bytes());
            assert_eq!(own, before, "{garbage}");
        }
    }
}
