//! Tables of OpenAPI definitions that refer to one another, linked into schemas once.
//!
//! A table owns its definitions; references between them are weak, so recursive types
//! (JSONSchemaProps) do not leak. Whoever uses the schemas keeps the table alive, as a rule in a
//! static. Equal nodes are shared (most fields are a plain string), and descriptions are left out:
//! documents are rendered from the JSON itself.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Map, Value};

use super::{ListType, PatchRule, Schema, SchemaRef, Type};

pub(super) const QUANTITY: &str = "io.k8s.apimachinery.pkg.api.resource.Quantity";

/// Definitions by name: `io.k8s.api.core.v1.PodSpec`.
#[derive(Debug, Default)]
pub struct Definitions {
    by_name: BTreeMap<String, SchemaRef>,
}

impl Definitions {
    /// Reads an object {name: OpenAPI v2 or v3 schema}, with `x-kubernetes-*` extensions and
    /// `$ref`s to other names. What cannot be read counts as "anything goes", and a reference to an
    /// unknown name too.
    pub fn from_json(definitions: &Value) -> Self {
        let mut builder = Builder::default();
        let mut by_name = BTreeMap::new();
        for (name, definition) in definitions.as_object().into_iter().flatten() {
            let mut schema = builder.read(definition);
            schema.definition.clone_from(name);
            if name == QUANTITY {
                schema.kind = Type::IntOrString;
                "quantity".clone_into(&mut schema.format);
            }
            by_name.insert(name.clone(), Arc::new(schema));
        }
        for reference in builder.references {
            if let Some(target) = by_name.get(&reference.definition) {
                let _ = reference.target.set(Arc::downgrade(target));
            }
        }
        Self { by_name }
    }

    pub fn get(&self, name: &str) -> Option<&SchemaRef> {
        self.by_name.get(name)
    }

    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.by_name.keys().map(String::as_str)
    }

    pub fn len(&self) -> usize {
        self.by_name.len()
    }

    pub fn is_empty(&self) -> bool {
        self.by_name.is_empty()
    }
}

#[derive(Default)]
struct Builder {
    /// By the JSON they were read from, without description.
    shared: BTreeMap<String, SchemaRef>,
    /// To be linked when all definitions are known.
    references: Vec<SchemaRef>,
}

impl Builder {
    fn node(&mut self, source: &Value) -> SchemaRef {
        let Some(source) = source.as_object() else {
            return Arc::default();
        };
        let key = (!source.contains_key("properties")).then(|| {
            let mut bare = source.clone();
            bare.remove("description");
            Value::Object(bare).to_string()
        });
        if let Some(known) = key.as_ref().and_then(|it| self.shared.get(it)) {
            return known.clone();
        }
        let schema = Arc::new(self.read_object(source));
        if reference_name(source).is_some() {
            self.references.push(schema.clone());
        }
        if let Some(key) = key {
            self.shared.insert(key, schema.clone());
        }
        schema
    }

    fn read(&mut self, source: &Value) -> Schema {
        source.as_object().map(|it| self.read_object(it)).unwrap_or_default()
    }

    fn read_object(&mut self, source: &Map<String, Value>) -> Schema {
        let mut schema = Schema { kind: read_type(source), ..read_extensions(source) };
        if let Some(name) = reference_name(source) {
            name.clone_into(&mut schema.definition);
        }
        for (name, property) in
            source.get("properties").and_then(Value::as_object).into_iter().flatten()
        {
            schema.properties.insert(name.clone(), self.node(property));
        }
        schema.items = source.get("items").map(|it| self.node(it));
        schema.additional = match source.get("additionalProperties") {
            None | Some(Value::Bool(false)) => None,
            Some(other) => Some(self.node(other)),
        };
        schema
    }
}

fn reference_name(source: &Map<String, Value>) -> Option<&str> {
    // OpenAPI v3 wraps a reference that has siblings: `allOf: [{$ref: ...}]`.
    let direct = source.get("$ref");
    let wrapped = || match source.get("allOf")?.as_array()?.as_slice() {
        [only] => only.get("$ref"),
        _ => None,
    };
    direct.or_else(wrapped)?.as_str()?.rsplit('/').next()
}

fn text<'a>(source: &'a Map<String, Value>, key: &str) -> &'a str {
    source.get(key).and_then(Value::as_str).unwrap_or_default()
}

fn flag(source: &Map<String, Value>, key: &str) -> bool {
    source.get(key).and_then(Value::as_bool).unwrap_or_default()
}

pub(super) fn texts(source: &Map<String, Value>, key: &str) -> Vec<String> {
    let values = source.get(key).and_then(Value::as_array).into_iter().flatten();
    values.filter_map(Value::as_str).map(str::to_owned).collect()
}

pub(super) fn read_type(source: &Map<String, Value>) -> Type {
    if flag(source, "x-kubernetes-int-or-string") || text(source, "format") == "int-or-string" {
        return Type::IntOrString;
    }
    match text(source, "type") {
        "object" => Type::Object,
        "array" => Type::Array,
        "string" => Type::String,
        "integer" => Type::Integer,
        "number" => Type::Number,
        "boolean" => Type::Boolean,
        _ if source.contains_key("properties") => Type::Object,
        _ => Type::Any,
    }
}

/// All that is not structure: format, merge rules, defaults.
pub(super) fn read_extensions(source: &Map<String, Value>) -> Schema {
    let strategies = text(source, "x-kubernetes-patch-strategy");
    let has_strategy = |name: &str| strategies.split(',').any(|it| it == name);
    let merge_key = text(source, "x-kubernetes-patch-merge-key");
    Schema {
        format: text(source, "format").to_owned(),
        required: texts(source, "required"),
        list_type: match text(source, "x-kubernetes-list-type") {
            "set" => ListType::Set,
            "map" => ListType::Map { keys: texts(source, "x-kubernetes-list-map-keys") },
            _ => ListType::Atomic,
        },
        is_atomic: text(source, "x-kubernetes-map-type") == "atomic",
        is_granular: text(source, "x-kubernetes-map-type") == "granular",
        patch: PatchRule {
            merge_key: (!merge_key.is_empty()).then(|| merge_key.to_owned()),
            is_merge: has_strategy("merge"),
            is_retain_keys: has_strategy("retainKeys"),
            is_replace: has_strategy("replace"),
        },
        nullable: flag(source, "nullable"),
        preserve_unknown: flag(source, "x-kubernetes-preserve-unknown-fields"),
        is_embedded_resource: flag(source, "x-kubernetes-embedded-resource"),
        default: source.get("default").cloned(),
        go_type: text(source, "x-go-type").to_owned(),
        go_embedded: text(source, "x-go-embedded").to_owned(),
        ..Schema::default()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn references_link_even_to_themselves() {
        let definitions = Definitions::from_json(&json!({
            "a.Tree": {
                "type": "object",
                "properties": {
                    "name": {"type": "string", "description": "one"},
                    "alias": {"type": "string", "description": "two"},
                    "children": {
                        "type": "array",
                        "items": {"$ref": "#/definitions/a.Tree"},
                        "x-kubernetes-list-type": "map",
                        "x-kubernetes-list-map-keys": ["name"],
                        "x-kubernetes-patch-strategy": "merge,retainKeys",
                        "x-kubernetes-patch-merge-key": "name"
                    },
                    "parent": {"allOf": [{"$ref": "#/components/schemas/a.Tree"}], "default": {}},
                    "lost": {"$ref": "#/definitions/gone"}
                }
            }
        }));
        let tree = definitions.get("a.Tree").unwrap();
        let children = &tree.properties["children"];
        let child = children.items.as_ref().unwrap();
        assert!(Arc::ptr_eq(&child.resolve(), tree));
        assert!(Arc::ptr_eq(&tree.properties["parent"].resolve(), tree));
        assert_eq!(children.list_type, ListType::Map { keys: vec!["name".to_owned()] });
        assert!(children.patch.is_merge && children.patch.is_retain_keys);
        assert_eq!(tree.properties["lost"].resolve().kind, Type::Any);
        assert!(Arc::ptr_eq(&tree.properties["name"], &tree.properties["alias"]));
    }
}
