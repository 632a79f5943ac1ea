//! What an author of a schema leaves to its extensions is said in words that every client knows: an
//! object within an object has a type and metadata, and a number or a text is one of two.

use std::collections::BTreeMap;

use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use super::type_and_metadata;

/// Of all fields, however deep. The whole object is completed by whoever knows what it is.
pub(super) fn complete_fields(
    schema: &mut Map<String, Value>,
    built_in: &BTreeMap<&str, &RawValue>,
) {
    for (keyword, value) in schema {
        match (keyword.as_str(), value) {
            ("properties", Value::Object(fields)) => {
                fields.values_mut().for_each(|it| complete(it, built_in));
            }
            ("items" | "additionalProperties", within) => complete(within, built_in),
            _ => {}
        }
    }
}

fn complete(schema: &mut Value, built_in: &BTreeMap<&str, &RawValue>) {
    let Value::Object(schema) = schema else { return };
    complete_fields(schema, built_in);
    let is_so = |schema: &Map<String, Value>, extension: &str| {
        schema.get(extension).is_some_and(|it| it == true)
    };
    if is_so(schema, "x-kubernetes-int-or-string") && !schema.contains_key("allOf") {
        let either = || json!([{ "type": "integer" }, { "type": "string" }]);
        schema.entry("anyOf").or_insert_with(either);
    }
    if is_so(schema, "x-kubernetes-embedded-resource") {
        let fields = schema.entry("properties").or_insert_with(|| json!({}));
        if let Value::Object(fields) = fields {
            fields.extend(type_and_metadata(built_in, "ConfigMap"));
        }
        if let Value::Array(required) = schema.entry("required").or_insert_with(|| json!([])) {
            required.extend(["kind", "apiVersion"].map(Value::from));
        }
    }
}
