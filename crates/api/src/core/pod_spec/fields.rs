//! The fields of a kind by its schema, for tests of what has to look at all of them.

use std::collections::BTreeSet;

use apimachinery::schema::{Schema, visit_fields};
use serde_json::{Value, json};

/// The paths of those that are `wanted`.
pub(crate) fn all(definition: &str, wanted: impl Fn(&str, &Schema) -> bool) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    visit_fields(&crate::schema(definition), &mut |path, schema| {
        if wanted(path, schema) {
            found.insert(path.to_owned());
        }
        true
    });
    found
}

/// Nothing but a value at a path; in a map, for `cpu`.
pub(crate) fn with(path: &str, value: Value) -> Value {
    path.split('.').rev().fold(value, |inner, step| match step {
        "[]" => json!([inner]),
        "{}" => json!({ "cpu": inner }),
        field => json!({ field: inner }),
    })
}
