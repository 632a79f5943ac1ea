//! OpenAPI documents, made from the list of served kinds: version 3, one document per group and
//! version with an index, and version 2, one document for all. kubectl reads field validation,
//! merge keys and `explain` from them. Nothing is cached here: whoever serves a document keeps its
//! bytes.

mod gnostic;
mod merge;
mod operations;
#[cfg(test)]
mod tests;
mod v2;
mod v3;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use apimachinery::GroupVersion;

use crate::kind::Kind;
use crate::schemas::REF_PREFIX;

pub use gnostic::v2::{MEDIA_TYPE as V2_PROTOBUF, MEDIA_TYPE_OLD as V2_PROTOBUF_OLD};
pub use gnostic::v3::{MEDIA_TYPE as V3_PROTOBUF, MEDIA_TYPE_OLD as V3_PROTOBUF_OLD};
pub use v2::{document as v2_document, protobuf as v2_protobuf};
pub use v3::{
    document as v3_document, index as v3_index, path as v3_path, place as v3_place,
    protobuf as v3_protobuf,
};

const META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1";

fn reference(definition: &str) -> Value {
    json!({ "$ref": format!("{REF_PREFIX}{definition}") })
}

/// The definition of a built-in kind that is only known by its names:
/// `io.k8s.api.autoscaling.v1.Scale`.
fn built_in_definition(group: &str, version: &str, kind: &str) -> String {
    let group = match group.split('.').next() {
        None | Some("") => "core",
        Some(first) => first,
    };
    format!("io.k8s.api.{group}.{version}.{kind}")
}

fn list_definition(definition: &str) -> String {
    format!("{definition}List")
}

fn kinds_of<'a>(
    kinds: &'a [Arc<dyn Kind>],
    group_version: &'a GroupVersion,
) -> impl Iterator<Item = &'a dyn Kind> {
    kinds.iter().map(AsRef::as_ref).filter(|it| {
        let names = it.names();
        names.group == group_version.group && names.version == group_version.version
    })
}

/// The definitions that custom resources bring: the object and its list. What every object has is
/// described as it is for built-in kinds.
fn custom_definitions(
    built_in: &BTreeMap<&str, &RawValue>,
    kind: &dyn Kind,
) -> Vec<(String, Value)> {
    let Some(Value::Object(mut schema)) = kind.written_schema() else { return Vec::new() };
    let (names, definition) = (kind.names(), kind.definition());
    let gvk =
        |kind: &str| json!([{ "group": names.group, "version": names.version, "kind": kind }]);
    let properties = schema.entry("properties").or_insert_with(|| Value::Object(Map::new()));
    if let Value::Object(properties) = properties {
        properties.extend(type_and_metadata(built_in));
    }
    schema.insert("type".to_owned(), json!("object"));
    schema.insert("x-kubernetes-group-version-kind".to_owned(), gvk(&names.kind));

    let list = json!({
        "description": format!("A list of {} objects.", names.kind),
        "type": "object",
        "properties": {
            "apiVersion": {
                "type": "string",
                "description": "The version of the API that this list is written in.",
            },
            "kind": { "type": "string", "description": "The kind of this list." },
            "metadata": {
                "allOf": [reference(&format!("{META}.ListMeta"))],
                "description": "The revision of the list, and how to go on reading it.",
            },
            "items": {
                "type": "array",
                "items": reference(&definition),
                "description": format!("The {} objects, sorted by namespace and name.", names.kind),
            },
        },
        "required": ["items"],
        "x-kubernetes-group-version-kind": gvk(&names.list_kind),
    });
    vec![(list_definition(&definition), list), (definition, Value::Object(schema))]
}

/// `apiVersion`, `kind` and `metadata` of a built-in kind, whichever.
fn type_and_metadata(built_in: &BTreeMap<&str, &RawValue>) -> Map<String, Value> {
    let written = built_in["io.k8s.api.core.v1.ConfigMap"].get();
    let mut schema: Value = serde_json::from_str(written).expect("the build wrote JSON");
    let fields = ["apiVersion", "kind", "metadata"];
    fields.map(|it| (it.to_owned(), schema["properties"][it].take())).into_iter().collect()
}

/// The names in `wanted` and all that they refer to.
fn reachable<'a>(
    definitions: &BTreeMap<&'a str, &'a RawValue>,
    wanted: impl IntoIterator<Item = String>,
) -> BTreeSet<String> {
    let mut open: Vec<String> = wanted.into_iter().collect();
    let mut found = BTreeSet::new();
    while let Some(name) = open.pop() {
        let Some(schema) = definitions.get(name.as_str()) else { continue };
        if found.insert(name) {
            open.extend(references_in(schema.get()));
        }
    }
    found
}

/// The names that a JSON text refers to.
fn references_in(text: &str) -> impl Iterator<Item = String> + '_ {
    text.split(REF_PREFIX).skip(1).filter_map(|rest| rest.split('"').next()).map(str::to_owned)
}
