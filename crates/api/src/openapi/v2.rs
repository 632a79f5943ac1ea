//! OpenAPI 2.0 (swagger), for old clients and as kubectl's fallback. Rendered from trees: it is
//! asked for rarely.

use std::collections::BTreeMap;
use std::sync::Arc;

use apimachinery::GroupVersion;
use bytes::Bytes;
use serde_json::{Map, Value, json};

use super::operations::{Operation, Parameter, paths};
use super::{custom_definitions, gnostic, merge};
use crate::kind::Kind;
use crate::schemas::{REF_PREFIX, Written};

pub(super) const PREFIX: &str = "#/definitions/";
const PRESERVES: &str = "x-kubernetes-preserve-unknown-fields";

/// GET /openapi/v2 as JSON. `foreign` are the documents of those who serve a version in place of
/// this server: of each, what is about that version is taken.
pub fn document(kinds: &[Arc<dyn Kind>], foreign: &[(GroupVersion, Bytes)]) -> Vec<u8> {
    let mut tree = tree(kinds);
    for (version, document) in foreign {
        merge::add(&mut tree, version, document);
    }
    tree.to_string().into_bytes()
}

/// GET /openapi/v2 as protobuf, from the document in JSON.
pub fn protobuf(document: &[u8]) -> Vec<u8> {
    let tree = serde_json::from_slice(document).unwrap_or_default();
    gnostic::v2::encode(&tree)
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
    let built_in = written.by_name();
    let mut definitions: BTreeMap<String, Value> = built_in
        .iter()
        .map(|(name, schema)| {
            let mut schema = serde_json::from_str(schema.get()).expect("the build wrote JSON");
            prune_defaults(&mut schema);
            ((*name).to_owned(), schema)
        })
        .collect();
    let custom = kinds.iter().flat_map(|it| custom_definitions(&built_in, it.as_ref()));
    definitions.extend(custom.map(|(name, mut schema)| {
        prune_defaults(&mut schema);
        close(&mut schema);
        (name, schema)
    }));
    definitions.values_mut().for_each(lower);
    json!({
        "swagger": "2.0",
        "info": { "title": "Kubernetes", "version": "v1.36.0" },
        "paths": rendered,
        "definitions": definitions,
    })
}

/// A custom resource in which anything goes is not described at all.
fn close(schema: &mut Value) {
    let Value::Object(object) = schema else { return };
    if object.get(PRESERVES) == Some(&json!(true)) {
        object.retain(|it, _| ["type", "x-kubernetes-group-version-kind"].contains(&it.as_str()));
    }
}

/// Clients of version 2 take a default for a value that the server fills in; those of built-in
/// types are not always. Upstream leaves out those of custom resources as well.
fn prune_defaults(schema: &mut Value) {
    let Value::Object(object) = schema else { return };
    object.remove("default");
    for_each_schema_within(object, prune_defaults);
}

/// Version 3 to version 2: references without wrapping, and none of the keywords that version 2
/// lacks. It descends only to where schemas are: a field may have the name of a keyword, and a
/// default may look like a schema.
pub(super) fn lower(schema: &mut Value) {
    let Value::Object(object) = schema else { return };
    lower_keywords(object);
    for_each_schema_within(object, lower);
}

fn for_each_schema_within(object: &mut Map<String, Value>, change: fn(&mut Value)) {
    for (keyword, value) in object {
        match (keyword.as_str(), value) {
            ("properties", Value::Object(fields)) => fields.values_mut().for_each(change),
            ("items" | "additionalProperties", schema) => change(schema),
            _ => {}
        }
    }
}

fn lower_keywords(object: &mut Map<String, Value>) {
    if let Some(Value::Array(parts)) = object.remove("allOf")
        && let [Value::Object(only)] = parts.as_slice()
        && only.contains_key("$ref")
    {
        object.extend(only.clone());
    }
    if let Some(Value::String(target)) = object.get_mut("$ref") {
        *target = target.replace(REF_PREFIX, PREFIX);
    }
    object.remove("anyOf");
    object.remove("not");
    // Clients of version 2 refuse null, and fields that are not listed: what may have them is not
    // described.
    let preserves = object.get(PRESERVES) == Some(&json!(true));
    if preserves {
        object.remove("properties");
        object.remove("items");
        object.remove("required");
        object.remove("type");
    }
    // Numbers or texts are texts in version 2.
    if object.remove("oneOf").is_some() && !preserves {
        object.entry("type").or_insert_with(|| json!("string"));
    }
    if object.remove("nullable") == Some(json!(true)) {
        for keyword in ["type", "properties", "items", "additionalProperties"] {
            object.remove(keyword);
        }
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
    let answer = operation.answer.as_deref().map_or_else(|| json!({ "type": "string" }), reference);
    json!({
        "operationId": operation.id,
        "tags": [operation.tag],
        "consumes": ["*/*"],
        "produces": ["application/json", "application/yaml"],
        "parameters": parameters,
        "responses": {
            "200": { "description": "OK", "schema": answer },
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
