//! What any bytes do to those who patch and merge: they are made into documents and patches that
//! mostly meet. Panics if a merger does or breaks its law. The fuzz targets call it, and the test
//! suite does with random bytes.

use std::sync::OnceLock;

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use crate::apply::{self, Resets, Writer};
use crate::patch;
use crate::schema::{Definitions, SchemaRef};

const DEPTH_MAX: usize = 6;
const NAMES: &[&str] = &[
    "metadata",
    "name",
    "labels",
    "finalizers",
    "spec",
    "containers",
    "args",
    "ports",
    "port",
    "env",
    "a",
    "$patch",
    "$retainKeys",
    "$setElementOrder/containers",
    "$deleteFromPrimitiveList/finalizers",
];
const TEXTS: &[&str] = &["", "a", "b", "delete", "replace", "merge", "TCP", "ä", "~1", "/"];
const OPERATIONS: &[&str] = &["add", "remove", "replace", "move", "copy", "test", "none"];

/// Bytes as choices. When they are used up all is 0.
struct Choices<'a>(&'a [u8]);

impl Choices<'_> {
    fn byte(&mut self) -> usize {
        let Some((first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        usize::from(*first)
    }

    fn of(&mut self, words: &'static [&'static str]) -> &'static str {
        words[self.byte() % words.len()]
    }

    fn value(&mut self, depth: usize) -> Value {
        match self.byte() % 8 {
            0 => Value::Null,
            1 => json!(self.byte()),
            2 => json!(self.byte().is_multiple_of(2)),
            3 | 4 => json!(self.of(TEXTS)),
            _ if depth == 0 => json!({}),
            5 => (0..self.byte() % 4).map(|_| self.value(depth - 1)).collect(),
            _ => self.object(depth - 1),
        }
    }

    fn object(&mut self, depth: usize) -> Value {
        let mut fields = Map::new();
        for _ in 0..self.byte() % 5 {
            fields.insert(self.of(NAMES).to_owned(), self.value(depth));
        }
        Value::Object(fields)
    }

    /// Into a document, or beside it.
    fn pointer(&mut self) -> String {
        let mut pointer = String::new();
        for _ in 0..self.byte() % 5 {
            pointer.push('/');
            match self.byte() % 4 {
                0 => pointer.push_str(&self.byte().to_string()),
                1 => pointer.push('-'),
                2 => pointer.push_str(self.of(TEXTS)),
                _ => pointer.push_str(self.of(NAMES)),
            }
        }
        pointer
    }

    fn operations(&mut self) -> Value {
        let operation = |it: &mut Self| json!({"op": it.of(OPERATIONS), "path": it.pointer(), "from": it.pointer(), "value": it.value(2)});
        (0..self.byte() % 12).map(|_| operation(self)).collect()
    }
}

fn schema() -> &'static SchemaRef {
    static SCHEMA: OnceLock<SchemaRef> = OnceLock::new();
    SCHEMA.get_or_init(|| {
        let text = || json!({"type": "string"});
        let by_name = |item: &str| {
            json!({"type": "array", "items": {"$ref": format!("#/definitions/{item}")},
                "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
                "x-kubernetes-patch-strategy": "merge,retainKeys", "x-kubernetes-patch-merge-key": "name"})
        };
        let definitions = Definitions::from_json(&json!({
            "Web": {"type": "object", "properties": {
                "metadata": {"$ref": "#/definitions/Meta"}, "spec": {"$ref": "#/definitions/Spec"}}},
            "Meta": {"type": "object", "properties": {"name": text(),
                "labels": {"type": "object", "additionalProperties": {"type": "string"}},
                "finalizers": {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set",
                    "x-kubernetes-patch-strategy": "merge"}}},
            "Spec": {"type": "object", "properties": {"containers": by_name("Container"),
                "args": {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "atomic"}}},
            "Container": {"type": "object", "properties": {"name": text(), "env": by_name("Container"),
                "ports": {"type": "array", "items": {"$ref": "#/definitions/Port"},
                    "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["port", "name"],
                    "x-kubernetes-patch-strategy": "merge", "x-kubernetes-patch-merge-key": "port"}}},
            "Port": {"type": "object", "properties": {"port": {"type": "integer"}, "name": text()}}
        }));
        definitions.get("Web").expect("it was just defined").clone()
    })
}

/// Every kind of patch on a document, and server-side apply by two managers.
pub fn patches(bytes: &[u8]) {
    let mut choices = Choices(bytes);
    let (document, patch) = (choices.object(DEPTH_MAX), choices.object(DEPTH_MAX));
    let operations = choices.operations();
    let _ = patch::json(&document, operations.to_string().as_bytes());
    let _ = patch::json(&document, bytes);
    let merged = patch::merge(&document, &patch);
    assert_eq!(patch::merge(&merged, &patch), merged, "merging twice is merging once");
    let _ = patch::strategic(schema(), &document, &patch);
    let writer = |manager| Writer {
        manager,
        api_version: "v1",
        subresource: "",
        now: Timestamp::UNIX_EPOCH,
        resets: Resets::Only(&["status"]),
    };
    let mut live = document;
    let _ = apply::record_update(schema(), None, &mut live, &writer("first"));
    for (manager, force) in [("second", false), ("third", true)] {
        if let Ok(applied) = apply::apply(schema(), Some(&live), &patch, &writer(manager), force) {
            live = applied;
        }
    }
    let mut updated = patch;
    let _ = apply::record_update(schema(), Some(&live), &mut updated, &writer("fourth"));
}
