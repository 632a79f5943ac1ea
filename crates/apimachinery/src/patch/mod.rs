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
}

/// RFC 6902, with limits on operations and growth.
pub fn json(document: &Value, patch: &[u8]) -> Result<Value, Error> {
    json_patch::apply(document, patch)
}

/// RFC 7386.
pub fn merge(document: &Value, patch: &Value) -> Value {
    let Value::Object(patch) = patch else {
        return patch.clone();
    };
    let mut merged = match document {
        Value::Object(fields) => fields.clone(),
        _ => Map::new(),
    };
    for (name, value) in patch {
        if value.is_null() {
            merged.remove(name);
        } else {
            let below = merge(merged.get(name).unwrap_or(&Value::Null), value);
            merged.insert(name.clone(), below);
        }
    }
    Value::Object(merged)
}

/// Kubernetes' strategic merge patch, with its directives ($patch, $retainKeys, $setElementOrder,
/// $deleteFromPrimitiveList).
pub fn strategic(schema: &SchemaRef, document: &Value, patch: &Value) -> Result<Value, Error> {
    strategic::apply(schema, document, patch)
}
