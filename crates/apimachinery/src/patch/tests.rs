//! Patches: document and patch in, document or error out.

use std::sync::OnceLock;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::schema::Definitions;

fn schema() -> SchemaRef {
    static DEFINITIONS: OnceLock<Definitions> = OnceLock::new();
    let definitions = DEFINITIONS.get_or_init(|| {
        Definitions::from_json(&json!({
            "Pod": {"type": "object", "properties": {
                "labels": {"type": "object", "additionalProperties": {"type": "string"}},
                "args": {"type": "array", "items": {"type": "string"}},
                "finalizers": {"type": "array", "items": {"type": "string"},
                    "x-kubernetes-patch-strategy": "merge"},
                "containers": {"type": "array", "items": {"$ref": "#/definitions/Container"},
                    "x-kubernetes-patch-strategy": "merge", "x-kubernetes-patch-merge-key": "name"},
                "strategy": {"type": "object", "x-kubernetes-patch-strategy": "retainKeys",
                    "properties": {"type": {"type": "string"}, "rolling": {"type": "object"}}}
            }},
            "Container": {"type": "object", "properties": {
                "name": {"type": "string"}, "image": {"type": "string"},
                "env": {"type": "array", "items": {"type": "object"},
                    "x-kubernetes-patch-strategy": "merge", "x-kubernetes-patch-merge-key": "name"}
            }}
        }))
    });
    definitions.get("Pod").unwrap().clone()
}

fn check(document: Value, patch: Value, expected: Value) {
    let actual = match strategic(&schema(), &document, &patch) {
        Ok(value) => value,
        Err(err) => Value::String(err.to_string()),
    };
    assert_eq!(actual, expected, "{document} {patch}");
}

#[test]
fn maps_merge_and_null_deletes() {
    check(
        json!({"labels": {"a": "1", "b": "2"}, "args": ["x"]}),
        json!({"labels": {"a": null, "c": "3"}, "args": ["y"]}),
        json!({"labels": {"b": "2", "c": "3"}, "args": ["y"]}),
    );
    check(json!({"labels": {"a": "1"}}), json!({"labels": {"$patch": "delete"}}), json!({}));
    check(
        json!({"labels": {"a": "1"}}),
        json!({"labels": {"$patch": "replace", "b": "2"}}),
        json!({"labels": {"b": "2"}}),
    );
}

#[test]
fn lists_with_a_key_merge_by_it() {
    let document =
        json!({"containers": [{"name": "a", "image": "1"}, {"name": "b", "image": "2"}]});
    check(
        document.clone(),
        json!({"containers": [{"name": "b", "image": "3", "env": [{"name": "x", "value": "1"}]}]}),
        json!({"containers": [
            {"name": "a", "image": "1"},
            {"name": "b", "image": "3", "env": [{"name": "x", "value": "1"}]}
        ]}),
    );
    check(
        document.clone(),
        json!({"containers": [{"name": "a", "$patch": "delete"}, {"name": "c"}]}),
        json!({"containers": [{"name": "c"}, {"name": "b", "image": "2"}]}),
    );
    check(
        document.clone(),
        json!({"containers": [{"$patch": "replace"}, {"name": "c"}]}),
        json!({"containers": [{"name": "c"}]}),
    );
    check(
        document.clone(),
        json!({"$setElementOrder/containers": [{"name": "b"}, {"name": "c"}, {"name": "a"}],
            "containers": [{"name": "c"}]}),
        json!({"containers": [
            {"name": "b", "image": "2"}, {"name": "c"}, {"name": "a", "image": "1"}
        ]}),
    );
    check(
        document,
        json!({"containers": [{"image": "3"}]}),
        json!("map: {\"image\":\"3\"} does not contain declared merge key: name"),
    );
}

#[test]
fn primitive_lists_merge_as_sets() {
    check(
        json!({"finalizers": ["a", "b"]}),
        json!({"$deleteFromPrimitiveList/finalizers": ["a"], "finalizers": ["c"],
            "$setElementOrder/finalizers": ["b", "c"]}),
        json!({"finalizers": ["b", "c"]}),
    );
    check(
        json!({"finalizers": ["a", "b", "c"]}),
        json!({"$setElementOrder/finalizers": ["c", "a"]}),
        json!({"finalizers": ["b", "c", "a"]}),
    );
}

#[test]
fn retain_keys_drops_the_rest() {
    check(
        json!({"strategy": {"type": "RollingUpdate", "rolling": {"a": 1}}}),
        json!({"strategy": {"$retainKeys": ["type"], "type": "Recreate"}}),
        json!({"strategy": {"type": "Recreate"}}),
    );
}

#[test]
fn directives_do_not_reach_new_objects() {
    check(
        json!({}),
        json!({"containers": [{"name": "a", "$setElementOrder/env": [{"name": "x"}],
            "env": [{"name": "x"}, {"name": "y", "$patch": "delete"}]}],
            "strategy": {"$retainKeys": ["type"], "type": "x"}}),
        json!({"containers": [{"name": "a", "env": [{"name": "x"}]}], "strategy": {"type": "x"}}),
    );
}

#[test]
fn json_patches_apply_in_order_or_say_why_not() {
    let check = |patch: Value, expected: Value| {
        let actual = match json(&json!({"a": [1, 2], "b": {"c": 1}}), patch.to_string().as_bytes())
        {
            Ok(value) => value,
            Err(Error::Malformed(text)) => json!(format!("400 {}", &text[..20])),
            Err(Error::Unprocessable(text)) => json!(format!("422 {text}")),
        };
        assert_eq!(actual, expected, "{patch}");
    };
    check(
        json!([{"op": "add", "path": "/a/-", "value": 3}, {"op": "remove", "path": "/b/c"}]),
        json!({"a": [1, 2, 3], "b": {}}),
    );
    check(
        json!([{"op": "test", "path": "/b/c", "value": 2}]),
        json!("422 testing value /b/c failed"),
    );
    check(json!([{"op": "sing", "path": "/b"}]), json!("400 error decoding patch"));
    let many = vec![json!({"op": "test", "path": "/b/c", "value": 1}); 10_001];
    check(json!(many), json!("400 The allowed maximum "));
    let missing = json!([{"op": "remove", "path": "/x"}]).to_string();
    assert!(matches!(json(&json!({}), missing.as_bytes()), Err(Error::Unprocessable(_))));
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<i8>().prop_map(Value::from),
        "[ab]".prop_map(Value::from)
    ];
    leaf.prop_recursive(3, 20, 4, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
            proptest::collection::btree_map("[abc]", inner, 0..4)
                .prop_map(|it| Value::Object(it.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn merging_twice_is_merging_once(document in any_json(), patch in any_json()) {
        let once = merge(&document, &patch);
        prop_assert_eq!(merge(&once, &patch), once);
    }

    #[test]
    fn an_empty_merge_patch_changes_nothing(document in any_json()) {
        if document.is_object() {
            prop_assert_eq!(merge(&document, &json!({})), document);
        }
    }

    #[test]
    fn strategic_never_panics(document in any_json(), patch in any_json()) {
        let _ = strategic(&schema(), &document, &patch);
    }
}
