//! OpenAPI 2.0 (swagger), for old clients and as kubectl's fallback. Rendered from trees: it is asked for rarely.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::custom_definitions;
use super::operations::{Operation, Parameter, paths};
use super::v3::tag;
use crate::kind::Kind;
use crate::schemas::{REF_PREFIX, Written};

const PREFIX: &str = "#/definitions/";

/// GET /openapi/v2.
pub fn document(kinds: &[Arc<dyn Kind>]) -> Vec<u8> {
    let mut rendered = Map::new();
    for kind in kinds {
        rendered.extend(paths(kind.as_ref()).into_iter().map(|it| {
            let item = path_item(&it.path, &it.operations);
            (it.path, item)
        }));
    }
    let written = Written::inflate();
    let mut definitions: BTreeMap<String, Value> = written
        .by_name()
        .into_iter()
        .map(|(name, schema)| {
            let schema = serde_json::from_str(schema.get()).expect("the build wrote JSON");
            (name.to_owned(), schema)
        })
        .collect();
    definitions.extend(kinds.iter().flat_map(|it| custom_definitions(it.as_ref())));
    definitions.values_mut().for_each(lower);
    json!({
        "swagger": "2.0",
        "info": { "title": "Kubernetes", "version": "v1.36.0" },
        "paths": rendered,
        "definitions": definitions,
    })
    .to_string()
    .into_bytes()
}

/// Version 3 to version 2: references without wrapping, and none of the keywords that version 2 lacks.
fn lower(schema: &mut Value) {
    match schema {
        Value::Array(items) => items.iter_mut().for_each(lower),
        Value::Object(object) => {
            if let Some(Value::String(target)) = object.get_mut("$ref") {
                *target = target.replace(REF_PREFIX, PREFIX);
            }
            if let Some(Value::Array(parts)) = object.remove("allOf")
                && let [Value::Object(only)] = parts.as_slice()
            {
                object.extend(only.clone());
                if let Some(Value::String(target)) = object.get_mut("$ref") {
                    *target = target.replace(REF_PREFIX, PREFIX);
                }
            }
            // Numbers or texts are texts in version 2. A field may have one of these names: then it is an object.
            if object.get("oneOf").is_some_and(Value::is_array) {
                object.remove("oneOf");
                object.entry("type").or_insert_with(|| json!("string"));
            }
            for keyword in ["anyOf", "not", "nullable"] {
                if object.get(keyword).is_some_and(|it| it.is_array() || it.is_boolean()) {
                    object.remove(keyword);
                }
            }
            object.values_mut().for_each(lower);
        }
        _ => {}
    }
}

fn path_item(path: &str, operations: &[Operation]) -> Value {
    let mut item: Map<String, Value> =
        operations.iter().map(|it| (it.method.to_owned(), operation(it))).collect();
    let parameters: Vec<Value> = ["name", "namespace"]
        .into_iter()
        .filter(|it| path.contains(&format!("{{{it}}}")))
        .map(|it| json!({ "name": it, "in": "path", "required": true, "type": "string" }))
        .collect();
    item.insert("parameters".to_owned(), Value::Array(parameters));
    Value::Object(item)
}

fn operation(operation: &Operation) -> Value {
    let reference = |definition: &str| json!({ "$ref": format!("{PREFIX}{definition}") });
    let mut parameters: Vec<Value> = operation.parameters.iter().map(parameter).collect();
    if let Some(body) = &operation.body {
        let is_required = !operation.action.starts_with("delete");
        parameters.push(json!({
            "name": "body", "in": "body", "required": is_required, "schema": reference(body),
        }));
    }
    json!({
        "operationId": operation.id,
        "tags": [tag(operation)],
        "consumes": ["*/*"],
        "produces": ["application/json", "application/yaml"],
        "parameters": parameters,
        "responses": {
            "200": { "description": "OK", "schema": reference(&operation.answer) },
            "401": { "description": "Unauthorized" },
        },
        "x-kubernetes-action": operation.action,
        "x-kubernetes-group-version-kind": {
            "group": operation.kind.group,
            "version": operation.kind.version,
            "kind": operation.kind.kind,
        },
    })
}

fn parameter((name, kind, description): &Parameter) -> Value {
    json!({ "name": name, "in": "query", "description": description, "type": kind })
}
