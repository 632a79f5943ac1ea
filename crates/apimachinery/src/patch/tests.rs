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
                "selector": {"type": "object", "x-kubernetes-patch-strategy": "replace",
                    "additionalProperties": {"type": "string"}},
                "data": {"allOf": [{"$ref": "#/definitions/a.RawExtension"}], "default": {}},
                "strategy": {"type": "object", "x-kubernetes-patch-strategy": "retainKeys",
                    "properties": {"type": {"type": "string"}, "rolling": {"type": "object"}}}
            }},
            "a.RawExtension": {"type": "object"},
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
fn a_merge_patch_brings_no_fields_that_are_null() {
    let merged = merge(
        &json!({"a": {"b": 1}, "list": [1]}),
        &json!({"a": {"b": null}, "list": [null, {"c": null, "d": [{"e": null}]}], "new": {"f": null}}),
    );
    assert_eq!(merged, json!({"a": {}, "list": [null, {"d": [{}]}], "new": {}}));
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
        document.clone(),
        json!({"containers": [{"name": null}]}),
        json!({"containers": [{}, {"name": "a", "image": "1"}, {"name": "b", "image": "2"}]}),
    );
    check(
        document.clone(),
        json!({"containers": [null]}),
        json!(
            "list element types are not identical: [[map[image:1 name:a] map[image:2 name:b]] [<nil>]]"
        ),
    );
    let nameless = json!({"containers": [{"image": "1"}, {"name": "b"}]});
    check(
        nameless.clone(),
        json!({"containers": [{"name": "c"}]}),
        json!("map: map[image:1] does not contain declared merge key: name"),
    );
    check(
        nameless,
        json!({"containers": [{"$patch": "replace"}, {"name": "c"}]}),
        json!({"containers": [{"name": "c"}]}),
    );
    check(
        document,
        json!({"containers": [{"image": "3"}]}),
        json!("map: map[image:3] does not contain declared merge key: name"),
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
            Err(Error::TooLarge(text)) => json!(format!("413 {text}")),
            Err(Error::Unfit(text)) => json!(format!("500 {text}")),
        };
        assert_eq!(actual, expected, "{patch}");
    };
    check(
        json!([{"op": "add", "path": "/a/-", "value": 3}, {"op": "remove", "path": "/b/c"}]),
        json!({"a": [1, 2, 3], "b": {}}),
    );
    // What is not there can be replaced, and copied.
    check(
        json!([{"op": "replace", "path": "/b/d", "value": 3}, {"op": "copy", "from": "/x", "path": "/y"}]),
        json!({"a": [1, 2], "b": {"c": 1, "d": 3}, "y": null}),
    );
    check(
        json!([{"op": "replace", "path": "/x/d", "value": 3}]),
        json!("422 replace operation does not apply: doc is missing path: /x/d: path is invalid"),
    );
    check(
        json!([{"op": "test", "path": "/b/c", "value": 2}]),
        json!("422 testing value /b/c failed"),
    );
    check(
        json!([{"op": "sing", "path": "/b"}]),
        json!(
            "422 unknown variant `sing`, expected one of `add`, `remove`, `replace`, `move`, `copy`, `test` at line 1 column 13"
        ),
    );
    check(json!(["sing"]), json!("400 error decoding patch"));
    let many = vec![json!({"op": "test", "path": "/b/c", "value": 1}); 10_001];
    check(
        json!(many),
        json!("413 The allowed maximum operations in a JSON patch is 10000, got 10001"),
    );
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

/// On a stack that is half of the smallest that requests are answered on, and not optimized.
fn on_a_small_stack(work: impl FnOnce() + Send + 'static) {
    let thread = std::thread::Builder::new().stack_size(1024 * 1024).spawn(work);
    thread.expect("a thread").join().expect("it ends well");
}

fn nested(levels: usize) -> Value {
    (0..levels).fold(json!(1), |inner, _| json!({"a": inner}))
}

#[test]
fn no_json_patch_nests_deeper_than_an_object_may_be() {
    on_a_small_stack(|| {
        let document = json!({"data": {"a": 1}});
        // Each copy doubles the depth of what it copies; all of them were 66 KB once.
        let copy = json!({"op": "copy", "from": "/data", "path": "/data/a"});
        let bomb = Value::Array(vec![copy; 1_000]);
        let refused = json_patch_error(&document, &bomb);
        assert!(refused.contains("nests deeper than 100 levels"), "{refused}");
        // By adding, at a path that is as long as it is deep.
        let path = "/a".repeat(90);
        let deep = json!([
            {"op": "add", "path": "/a", "value": nested(95)},
            {"op": "add", "path": path, "value": nested(50)},
        ]);
        json_patch_error(&document, &deep);
        let moved = json!([
            {"op": "add", "path": "/x", "value": nested(90)},
            {"op": "add", "path": "/y", "value": nested(90)},
            {"op": "move", "from": "/x", "path": "/y/a/a/a/a/a/a/a/a/a/a/a/a"},
        ]);
        json_patch_error(&document, &moved);
        json_patch_error(&document, &json!([{"op": "add", "path": "/x", "value": nested(99)}]));
        let deepest = json!([{"op": "add", "path": "/x", "value": nested(97)}]);
        let patched = json(&document, deepest.to_string().as_bytes()).expect("as deep as may be");
        assert_eq!(crate::bounds::depth(&patched), 98);
        // Whatever the other forms make of such a value, and dropping it, takes no more.
        merge(&patched, &nested(100));
        strategic(&SchemaRef::default(), &patched, &nested(100)).expect("merged");
    });
}

fn json_patch_error(document: &Value, patch: &Value) -> String {
    json(document, patch.to_string().as_bytes()).expect_err("beyond the bounds").to_string()
}

#[test]
fn a_json_patch_does_not_shuffle_long_lists_for_hours() {
    let document = json!({"list": vec![0; 100_000], "other": []});
    let insert = json!({"op": "add", "path": "/list/0", "value": 1});
    let many = Value::Array(vec![insert; 9_000]);
    let refused = json_patch_error(&document, &many);
    assert!(refused.contains("moves more than"), "{refused}");
    let there = json!({"op": "move", "from": "/list", "path": "/moved"});
    let back = json!({"op": "move", "from": "/moved", "path": "/list"});
    let many = Value::Array((0..4_000).flat_map(|_| [there.clone(), back.clone()]).collect());
    let refused = json_patch_error(&document, &many);
    assert!(refused.contains("moves more than"), "{refused}");
}

#[test]
fn large_sets_and_keyed_lists_merge_without_comparing_all_with_all() {
    const N_ITEMS: usize = 40_000;
    let schema = schema_of(&json!({
        "finalizers": {
            "type": "array", "items": {"type": "string"}, "x-kubernetes-patch-strategy": "merge"
        },
        "ports": {
            "type": "array", "items": {"type": "object"},
            "x-kubernetes-patch-strategy": "merge", "x-kubernetes-patch-merge-key": "port"
        },
    }));
    let texts = |from: usize| (from..from + N_ITEMS).map(|it| json!(format!("f-{it}")));
    let ports =
        |from: usize| (from..from + N_ITEMS).map(move |it| json!({"port": it, "name": from}));
    let live = json!({
        "finalizers": texts(0).collect::<Vec<_>>(), "ports": ports(0).collect::<Vec<_>>(),
    });
    let patch = json!({
        "finalizers": texts(N_ITEMS / 2).collect::<Vec<_>>(),
        "ports": ports(N_ITEMS / 2).collect::<Vec<_>>(),
        "$deleteFromPrimitiveList/finalizers": texts(0).take(10).collect::<Vec<_>>(),
        "$retainKeys": ["finalizers", "ports"],
    });
    let merged = strategic(&schema, &live, &patch).expect("merged");
    let length = |name: &str| merged[name].as_array().map(Vec::len);
    assert_eq!(length("finalizers"), Some(N_ITEMS * 3 / 2 - 10));
    assert_eq!(length("ports"), Some(N_ITEMS * 3 / 2));
}

fn schema_of(properties: &Value) -> SchemaRef {
    let definitions = Definitions::from_json(&json!({
        "io.example.Thing": {"type": "object", "properties": properties}
    }));
    definitions.get("io.example.Thing").cloned().expect("a schema")
}

#[test]
fn a_map_may_say_that_it_is_replaced() {
    check(
        json!({"selector": {"a": "1"}}),
        json!({"selector": {"b": "2"}}),
        json!({"selector": {"b": "2"}}),
    );
}

#[test]
fn a_list_that_merges_with_nothing_is_taken_as_it_is() {
    check(
        json!({}),
        json!({"containers": [{"image": "1"}]}),
        json!({"containers": [{"image": "1"}]}),
    );
}

#[test]
fn what_upstream_cannot_merge_is_a_fault_of_its_own() {
    let check = |document: Value, patch: Value| {
        let refused = strategic(&schema(), &document, &patch);
        assert!(matches!(refused, Err(Error::Unfit(_))), "{refused:?}");
    };
    check(json!({"data": {"a": {"b": 1}}}), json!({"data": {"a": {"b": 2}}}));
    check(json!({"containers": [{"name": "a"}]}), json!({"containers": [null]}));
}
