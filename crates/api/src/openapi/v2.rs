//! OpenAPI 2.0 (swagger), for old clients and as kubectl's fallback. Rendered from trees: it is asked for rarely.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::operations::{Operation, Parameter, paths};
use super::v3::tag;
use super::{custom_definitions, gnostic};
use crate::kind::Kind;
use crate::schemas::{REF_PREFIX, Written};

const PREFIX: &str = "#/definitions/";

/// GET /openapi/v2 as JSON.
pub fn document(kinds: &[Arc<dyn Kind>]) -> Vec<u8> {
    tree(kinds).to_string().into_bytes()
}

/// GET /openapi/v2 as protobuf.
pub fn protobuf(kinds: &[Arc<dyn Kind>]) -> Vec<u8> {
    gnostic::encode(&tree(kinds))
}

fn tree(kinds: &[Arc<dyn Kind>]) -> Value {
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
}

/// Version 3 to version 2: references without wrapping, and none of the keywords that version 2 lacks. A field may have the
/// name of a keyword (in the schema of schemas): then what is under it is an object, which no keyword here has.
fn lower(schema: &mut Value) {
    match schema {
        Value::Array(items) => items.iter_mut().for_each(lower),
        Value::Object(object) => {
            lower_keywords(object);
            object.values_mut().for_each(lower);
        }
        _ => {}
    }
}

fn lower_keywords(object: &mut Map<String, Value>) {
    if let Some(parts) = take_list(object, "allOf")
        && let [Value::Object(only)] = parts.as_slice()
        && only.contains_key("$ref")
    {
        object.extend(only.clone());
    }
    if let Some(Value::String(target)) = object.get_mut("$ref") {
        *target = target.replace(REF_PREFIX, PREFIX);
    }
    let preserves = object.get("x-kubernetes-preserve-unknown-fields") == Some(&json!(true));
    // Numbers or texts are texts in version 2.
    if take_list(object, "oneOf").is_some() && !preserves {
        object.entry("type").or_insert_with(|| json!("string"));
    }
    take_list(object, "anyOf");
    if object.get("not").is_some_and(|it| it.is_array() || it.is_boolean()) {
        object.remove("not");
    }
    // Clients of version 2 refuse null, and fields that are not listed: what may have them is not described.
    if preserves {
        object.remove("properties");
        object.remove("items");
    }
    if let Some(Value::Bool(is_nullable)) = object.get("nullable") {
        if *is_nullable {
            for keyword in ["type", "properties", "items", "additionalProperties"] {
                object.remove(keyword);
            }
        }
        object.remove("nullable");
    }
}

fn take_list(object: &mut Map<String, Value>, keyword: &str) -> Option<Vec<Value>> {
    match object.get_mut(keyword)? {
        Value::Array(items) => {
            let items = std::mem::take(items);
            object.remove(keyword);
            Some(items)
        }
        _ => None,
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
