//! JSON patch, merge patch and strategic merge patch, on JSON trees.

use serde_json::Value;

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
    let _ = (document, patch);
    todo!("apimachinery")
}

/// RFC 7386.
pub fn merge(document: &Value, patch: &Value) -> Value {
    let _ = (document, patch);
    todo!("apimachinery")
}

/// Kubernetes' strategic merge patch, with its directives ($patch, $retainKeys, $setElementOrder,
/// $deleteFromPrimitiveList).
pub fn strategic(schema: &SchemaRef, document: &Value, patch: &Value) -> Result<Value, Error> {
    let _ = (schema, document, patch);
    todo!("apimachinery")
}
