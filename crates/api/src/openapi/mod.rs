//! OpenAPI documents, made from the list of served kinds: version 3, one document per group and
//! version with an index, and version 2, one document for all. kubectl reads field validation,
//! merge keys and `explain` from them. Nothing is cached here: whoever serves a document keeps its
//! bytes.

mod custom;
mod gnostic;
mod merge;
mod operations;
mod parameters;
#[cfg(test)]
mod tests;
mod v2;
mod v3;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::value::RawValue;
use serde_json::{Value, json};

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
