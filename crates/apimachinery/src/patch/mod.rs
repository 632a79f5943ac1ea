//! JSON patch, merge patch and strategic merge patch, on JSON trees.

mod json_patch;
mod strategic;
#[cfg(test)]
mod tests;

use serde_json::{Map, Value};

use crate::schema::SchemaRef;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The patch itself makes no sense: 400.
    #[error("{0}")]
    Malformed(String),
    /// The patch is well-formed but does not fit this object: 422.
    #[error("{0}")]
    Unprocessable(String),
    /// The patch does not fit in a way that upstream calls a fault of the server: 500.
    #[error("{0}")]
    Unfit(String),
    /// The patch asks for more than one may: 413.
    #[error("{0}")]
    TooLarge(String),
}

/// RFC 6902, with limits on operations and growth.
pub fn json(document: &Value, patch: &[u8]) -> Result<Value, Error> {
    json_patch::apply(document, patch)
}

/// RFC 7386.
pub fn merge(document: &Value, patch: &Value) -> Value {
    let mut merged = document.clone();
    merge_into(&mut merged, patch);
    merged
}

fn merge_into(merged: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        *merged = without_nulls(patch);
        return;
    };
    if !merged.is_object() {
        *merged = Value::Object(Map::new());
    }
    let Value::Object(fields) = merged else { return };
    for (name, value) in patch {
        if value.is_null() {
            fields.remove(name);
        } else {
            merge_into(fields.entry(name.clone()).or_insert(Value::Null), value);
        }
    }
}

/// What takes the place of something else has nothing to remove: fields that are null are not there,
/// also those of objects in lists. Items that are null stay.
fn without_nulls(value: &Value) -> Value {
    match value {
        Value::Array(items) => items.iter().map(without_nulls).collect(),
        Value::Object(fields) => {
            let fields = fields.iter().filter(|(_, it)| !it.is_null());
            Value::Object(fields.map(|(name, it)| (name.clone(), without_nulls(it))).collect())
        }
        other => other.clone(),
    }
}

/// Kubernetes' strategic merge patch, with its directives ($patch, $retainKeys, $setElementOrder,
/// $deleteFromPrimitiveList).
pub fn strategic(schema: &SchemaRef, document: &Value, patch: &Value) -> Result<Value, Error> {
    strategic::apply(schema, document, patch)
}
