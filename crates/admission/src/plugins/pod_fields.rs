//! The fields of a pod spec, by its schema. What looks into pods is held against them, so that a
//! field that is new fails a test until somebody has said what becomes of it.

use std::collections::{BTreeMap, BTreeSet};

use apimachinery::schema::{Schema, visit_fields};
use serde_json::{Value, json};

const SPEC: &str = "io.k8s.api.core.v1.PodSpec";

/// The paths of all fields that are `wanted`, by their path and their schema: `[]` goes into a list,
/// `{}` into a map.
pub(crate) fn all(wanted: impl Fn(&str, &Schema) -> bool) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    visit_fields(&api::schema(SPEC), &mut |path, schema| {
        if wanted(path, schema) {
            found.insert(path.to_owned());
        }
        true
    });
    found
}

/// Of all amounts of something.
pub(crate) fn quantities() -> BTreeSet<String> {
    all(|_, schema| schema.format == "quantity")
}

/// What there is, down to the fields that are known and no further, is what is known. A known field
/// that `may_be_gone` need not be there.
pub(crate) fn check_known(known: &BTreeSet<&str>, may_be_gone: impl Fn(&str) -> bool) {
    let mut found = BTreeSet::new();
    visit_fields(&api::schema(SPEC), &mut |path, schema| {
        let is_leaf = schema.items.is_none() && schema.properties.is_empty();
        let is_known = known.contains(path);
        if is_known || is_leaf {
            found.insert(path.to_owned());
        }
        !is_known && !is_leaf
    });
    let found: BTreeSet<&str> = found.iter().map(String::as_str).collect();
    let new: Vec<&&str> = found.difference(known).collect();
    assert!(new.is_empty(), "fields that nobody has thought of: {new:?}");
    let gone: Vec<&&str> = known.difference(&found).filter(|it| !may_be_gone(it)).collect();
    assert!(gone.is_empty(), "{gone:?}");
}

/// Those of one sort of container in all three lists.
pub(crate) fn of_containers<'t, T: Copy>(fields: &'t [(&str, T)]) -> BTreeMap<String, T> {
    let lists = ["containers", "ephemeralContainers", "initContainers"];
    let below = |list: &'t str| fields.iter().map(move |(it, by)| (format!("{list}.[].{it}"), *by));
    lists.into_iter().flat_map(below).collect()
}

/// Nothing but a value at a path; in a map, for `cpu`.
pub(crate) fn with(path: &str, value: Value) -> Value {
    path.split('.').rev().fold(value, |inner, step| match step {
        "[]" => json!([inner]),
        "{}" => json!({ "cpu": inner }),
        field => json!({ field: inner }),
    })
}
