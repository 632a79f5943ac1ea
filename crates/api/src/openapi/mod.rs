//! OpenAPI documents, made from the list of served kinds: version 3, one document per group and
//! version with an index, and version 2, one document for all. kubectl reads field validation,
//! merge keys and `explain` from them. Nothing is cached here: whoever serves a document keeps its
//! bytes.

mod embedded;
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

const SELECTABLE: &str = "x-kubernetes-selectable-fields";
const CONVENTIONS: &str =
    "https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md";
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
    embedded::complete_fields(&mut schema, built_in);
    let properties = schema.entry("properties").or_insert_with(|| Value::Object(Map::new()));
    if let Value::Object(properties) = properties {
        properties.extend(type_and_metadata(built_in, "ConfigMap"));
    }
    schema.insert("type".to_owned(), json!("object"));
    schema.insert("x-kubernetes-group-version-kind".to_owned(), gvk(&names.kind));

    let mut properties = type_and_metadata(built_in, "ConfigMap");
    properties.extend(type_and_metadata(built_in, "ConfigMapList").remove_entry("metadata"));
    let items = json!({
        "type": "array",
        "items": reference(&definition),
        "description": format!("List of {}. More info: {CONVENTIONS}", names.plural),
    });
    properties.insert("items".to_owned(), items);
    let mut list = json!({
        "description": format!("{} is a list of {}", names.list_kind, names.kind),
        "type": "object",
        "properties": properties,
        "required": ["items"],
        "x-kubernetes-group-version-kind": gvk(&names.list_kind),
    });
    let selectable = kind.field_names();
    let selectable: Vec<Value> =
        selectable.iter().map(|(name, _)| json!({ "fieldPath": name })).collect();
    if !selectable.is_empty() {
        schema.insert(SELECTABLE.to_owned(), json!(selectable));
        list[SELECTABLE] = json!(selectable);
    }
    vec![(list_definition(&definition), list), (definition, Value::Object(schema))]
}

/// `apiVersion`, `kind` and `metadata` as a built-in kind has them.
fn type_and_metadata(built_in: &BTreeMap<&str, &RawValue>, like: &str) -> Map<String, Value> {
    let written = built_in[format!("io.k8s.api.core.v1.{like}").as_str()].get();
    let mut schema: Value = serde_json::from_str(written).expect("the build wrote JSON");
    let field = |name: &str| {
        let mut field = schema["properties"][name].take();
        field.as_object_mut().map(|it| it.remove("default"));
        (name.to_owned(), field)
    };
    ["apiVersion", "kind", "metadata"].map(field).into_iter().collect()
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
