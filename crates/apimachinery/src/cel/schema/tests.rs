//! How large values can be, and which fields expressions see.

use serde_json::{Value, json};

use super::{Node, Role};
use crate::field::{FieldErrors, Path};
use crate::schema::Schema;

/// The field `it` of a root.
fn node(schema: Value) -> std::sync::Arc<Node> {
    let root = json!({"type": "object", "properties": {"it": schema}});
    let schema = Schema::from_open_api(&root, &Path::root(), &mut FieldErrors::new());
    Node::new(&schema, Role::Resource).named("it").unwrap().clone()
}

#[test]
fn sizes_are_those_of_a_request_at_most() {
    const MOST: u64 = 3 * 1024 * 1024 - 2;
    let rows = [
        (json!({"type": "string"}), MOST, 2),
        (json!({"type": "string", "maxLength": 10}), 40, 2),
        (json!({"type": "string", "maxLength": -1}), 0, 2),
        (json!({"type": "string", "enum": ["a", "four"]}), 4, 2),
        (json!({"type": "string", "format": "byte", "maxLength": 10}), 10, 2),
        (json!({"type": "string", "format": "duration"}), 32, 3),
        (json!({"type": "string", "format": "date"}), 12, 12),
        (json!({"type": "string", "format": "date-time"}), 32, 21),
        (json!({"type": "integer"}), 0, 1),
        (json!({"type": "boolean"}), 0, 4),
        (json!({"x-kubernetes-int-or-string": true}), MOST, 1),
        (json!({"type": "array", "maxItems": 5, "items": {"type": "string"}}), 5, 2),
        (json!({"type": "array", "items": {"type": "string"}}), MOST / 3, 2),
        (json!({"type": "object", "additionalProperties": {"type": "string"}}), MOST / 8, 2),
        (
            json!({"type": "object", "required": ["ab", "c"], "properties": {
                "ab": {"type": "string"}, "c": {"type": "boolean", "default": true}
            }}),
            0,
            2 + (2 + 2 + 4),
        ),
    ];
    for (schema, most, least) in rows {
        let node = node(schema.clone());
        assert_eq!((node.most, node.least), (most, least), "{schema}");
    }
}

#[test]
fn what_has_no_type_is_not_seen() {
    let unknown = json!({"x-kubernetes-preserve-unknown-fields": true});
    assert!(!node(unknown.clone()).is_visible);
    assert!(!node(json!({"type": "array", "items": unknown})).is_visible);
    assert!(!node(json!({"type": "object", "additionalProperties": unknown})).is_visible);
    let object = node(json!({"type": "object", "properties": {"a": unknown}}));
    assert!(object.is_visible && object.field("a").is_none() && object.named("a").is_some());
    let resource = node(json!({
        "type": "object", "x-kubernetes-embedded-resource": true,
        "x-kubernetes-preserve-unknown-fields": true
    }));
    let metadata = resource.field("metadata").unwrap();
    assert!(metadata.field("name").is_some() && metadata.field("labels").is_none());
}
