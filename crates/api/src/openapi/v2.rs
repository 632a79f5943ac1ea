//! OpenAPI 2.0 (swagger), for old clients and as kubectl's fallback. Rendered from trees: it is
//! asked for rarely.

use std::collections::BTreeMap;
use std::sync::Arc;

use apimachinery::GroupVersion;
use bytes::Bytes;
use serde_json::{Map, Value, json};

use super::custom::{self, Clients};
use super::operations::{Body, Operation, Path, paths};
use super::{META, gnostic, merge};
use crate::kind::Kind;
use crate::schemas::{REF_PREFIX, Written};

pub(super) const PREFIX: &str = "#/definitions/";
/// Of what is said once for all operations.
pub(super) const PARAMETERS: &str = "#/parameters/";

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
    let (mut rendered, mut shared) = (Map::new(), Map::new());
    for kind in kinds {
        for path in paths(kind.as_ref()) {
            let item = path_item(&path, &mut shared);
            rendered.insert(path.path, item);
        }
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
    definitions.values_mut().for_each(lower);
    definitions.extend(kinds.iter().flat_map(|it| custom::definitions(it.as_ref(), Clients::OfV2)));
    json!({
        "swagger": "2.0",
        "info": { "title": "Kubernetes", "version": "v1.36.0" },
        "paths": rendered,
        "definitions": definitions,
        "parameters": shared,
    })
}

/// Clients of version 2 take a default for a value that the server fills in; those of built-in
/// types are not always.
fn prune_defaults(schema: &mut Value) {
    let Value::Object(object) = schema else { return };
    object.remove("default");
    for_each_schema_within(object, prune_defaults);
}

/// Built-in types from version 3 to version 2: references without wrapping, and none of the keywords
/// that version 2 lacks. It descends only to where schemas are: a field may have the name of a
/// keyword, and a default may look like a schema.
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
    // Numbers or texts are texts in version 2.
    if object.remove("oneOf").is_some() {
        object.entry("type").or_insert_with(|| json!("string"));
    }
}

/// What is shared is said among all `shared`.
fn path_item(path: &Path, shared: &mut Map<String, Value>) -> Value {
    let operations = path.operations.iter();
    let mut item: Map<String, Value> =
        operations.map(|it| (it.method.to_owned(), operation(it, shared))).collect();
    let parameters = path.parameters.iter();
    let parameters = parameters.map(|it| share(it.shared.as_deref(), it.v2(), shared)).collect();
    item.insert("parameters".to_owned(), Value::Array(parameters));
    Value::Object(item)
}

fn share(name: Option<&str>, said: Value, shared: &mut Map<String, Value>) -> Value {
    let Some(name) = name else { return said };
    shared.entry(name).or_insert(said);
    json!({ "$ref": format!("{PARAMETERS}{name}") })
}

fn reference(definition: &str) -> Value {
    json!({ "$ref": format!("{PREFIX}{definition}") })
}

/// Those that are the same for all kinds have upstream's names.
fn body(body: &Body, shared: &mut Map<String, Value>) -> Value {
    let mut said = json!({ "name": "body", "in": "body", "schema": reference(&body.definition) });
    if body.is_required {
        said["required"] = json!(true);
    }
    let name = match body.definition.strip_prefix(META) {
        Some(".DeleteOptions") => Some("body-2Y1dVQaQ"),
        Some(".Patch") => Some("body-78PwaGsr"),
        _ => None,
    };
    share(name, said, shared)
}

fn operation(operation: &Operation, shared: &mut Map<String, Value>) -> Value {
    let mut parameters: Vec<Value> = operation.body.iter().map(|it| body(it, shared)).collect();
    let others = operation.parameters.iter();
    parameters.extend(others.map(|it| share(it.shared.as_deref(), it.v2(), shared)));
    let answer = operation.answer.as_deref().map_or_else(|| json!({ "type": "string" }), reference);
    let answered = operation.codes.iter();
    let answered = answered
        .map(|(code, what)| (code.to_string(), json!({ "description": what, "schema": answer })));
    let mut responses: Map<String, Value> = answered.collect();
    responses.insert("401".to_owned(), json!({ "description": "Unauthorized" }));
    let mut rendered = json!({
        "operationId": operation.id,
        "description": operation.description,
        "tags": [operation.tag],
        "consumes": operation.consumes,
        "produces": operation.produces,
        "schemes": ["https"],
        "responses": responses,
        "x-kubernetes-action": operation.action,
        "x-kubernetes-group-version-kind": {
            "group": operation.kind.group,
            "version": operation.kind.version,
            "kind": operation.kind.kind,
        },
    });
    if !parameters.is_empty() {
        rendered["parameters"] = json!(parameters);
    }
    rendered
}
