//! OpenAPI 3.0. Built-in schemas are copied as the text they are stored as, without building a
//! tree.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use apimachinery::GroupVersion;

use super::custom::{self, Clients};
use super::operations::{Operation, Path, paths};
use super::{META, gnostic, kinds_of, reachable, reference, references_in};
use crate::kind::Kind;
use crate::schemas::Written;

/// Where a group version is in the index and below `/openapi/v3/`: `api/v1`, `apis/apps/v1`.
pub fn path(group_version: &GroupVersion) -> String {
    if group_version.group.is_empty() {
        format!("api/{}", group_version.version)
    } else {
        format!("apis/{group_version}")
    }
}

/// Where the document of a group version is, by its hash.
pub fn place(group_version: &GroupVersion, hash: &str) -> String {
    format!("/openapi/v3/{}?hash={hash}", path(group_version))
}

/// GET /openapi/v3: each group version with the place of its document.
pub fn index(places: impl IntoIterator<Item = (GroupVersion, String)>) -> Vec<u8> {
    let paths: Map<String, Value> = places
        .into_iter()
        .map(|(group_version, place)| (path(&group_version), json!({ "serverRelativeURL": place })))
        .collect();
    json!({ "paths": paths }).to_string().into_bytes()
}

/// GET /openapi/v3/<path of the group version>.
pub fn document(group_version: &GroupVersion, kinds: &[Arc<dyn Kind>]) -> Vec<u8> {
    let mut rendered = Map::new();
    for kind in kinds_of(kinds, group_version) {
        rendered.extend(paths(kind).into_iter().map(|it| {
            let item = path_item(&it);
            (it.path, item)
        }));
    }
    let rendered = Value::Object(rendered).to_string();

    let written = Written::inflate();
    let built_in = written.by_name();
    let custom: BTreeMap<String, String> = kinds_of(kinds, group_version)
        .flat_map(|it| custom::definitions(it, Clients::OfV3))
        .map(|(name, schema)| (name, schema.to_string()))
        .collect();
    let mut wanted: Vec<String> = references_in(&rendered).collect();
    wanted.extend(custom.values().flat_map(|it| references_in(it)));
    // Shown although no path refers to them: clients look kinds up in the document of their group.
    wanted.extend(kinds_of(kinds, group_version).map(Kind::definition));
    let is_custom = kinds_of(kinds, group_version).all(Kind::is_custom);
    if !is_custom {
        wanted.push(format!("{META}.WatchEvent"));
    }
    let info = match is_custom {
        true => json!({ "title": "Kubernetes CRD Swagger", "version": "v0.1.0" }),
        false => json!({ "title": "Kubernetes", "version": "v1.36.0" }),
    };
    let schemas = render_schemas(&built_in, &custom, wanted);
    format!(
        concat!(
            r#"{{"openapi":"3.0.0","info":{},"#,
            r#""paths":{},"components":{{"schemas":{{{}}}}}}}"#
        ),
        info, rendered, schemas
    )
    .into_bytes()
}

/// The same as protobuf, of the JSON; empty if that is none.
pub fn protobuf(document: &[u8]) -> Vec<u8> {
    let tree: Option<Value> = serde_json::from_slice(document).ok();
    tree.map(|it| gnostic::v3::encode(&it)).unwrap_or_default()
}

fn render_schemas<'a>(
    built_in: &BTreeMap<&'a str, &'a RawValue>,
    custom: &BTreeMap<String, String>,
    wanted: Vec<String>,
) -> String {
    let reachable = reachable(built_in, wanted);
    let built_in = reachable.iter().map(|it| (it.as_str(), built_in[it.as_str()].get()));
    let custom = custom.iter().map(|(name, schema)| (name.as_str(), schema.as_str()));
    // Sorted by name, so that one set of kinds gives one document.
    let all: BTreeMap<&str, &str> = built_in.chain(custom).collect();
    let members: Vec<String> = all
        .into_iter()
        .map(|(name, schema)| format!("{}:{schema}", Value::String(name.to_owned())))
        .collect();
    members.join(",")
}

fn path_item(path: &Path) -> Value {
    let mut item: Map<String, Value> =
        path.operations.iter().map(|it| (it.method.to_owned(), operation(it))).collect();
    let parameters = path.parameters.iter().map(|it| it.v3()).collect();
    item.insert("parameters".to_owned(), Value::Array(parameters));
    Value::Object(item)
}

fn operation(operation: &Operation) -> Value {
    let content = |definition: &str, types: &[&str]| -> Value {
        let schema = json!({ "schema": reference(definition) });
        types.iter().map(|it| ((*it).to_owned(), schema.clone())).collect::<Map<_, _>>().into()
    };
    let answer = operation.answer.as_deref().map_or_else(
        || json!({ "text/plain": { "schema": { "type": "string" } } }),
        |it| content(it, operation.produces),
    );
    let answered = operation
        .codes
        .iter()
        .map(|(code, what)| (code.to_string(), json!({ "description": what, "content": answer })));
    let mut responses: Map<String, Value> = answered.collect();
    responses.insert("401".to_owned(), json!({ "description": "Unauthorized" }));
    let mut rendered = json!({
        "operationId": operation.id,
        "description": operation.description,
        "tags": [operation.tag],
        "responses": responses,
        "x-kubernetes-action": operation.action,
        "x-kubernetes-group-version-kind": {
            "group": operation.kind.group,
            "version": operation.kind.version,
            "kind": operation.kind.kind,
        },
    });
    if !operation.parameters.is_empty() {
        rendered["parameters"] = operation.parameters.iter().map(|it| it.v3()).collect();
    }
    if let Some(body) = &operation.body {
        let mut said = json!({ "content": content(&body.definition, operation.consumes) });
        if body.is_required {
            said["required"] = json!(true);
        }
        rendered["requestBody"] = said;
    }
    rendered
}
