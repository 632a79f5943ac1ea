//! Values of a schema: a plain one, and whole objects drawn from a seed.

use apimachinery::schema::{Schema, SchemaRef, Type};
use serde_json::{Map, Value, json};

/// How often a type may stand inside itself.
const NESTED_MAX: usize = 1;

/// Something that is not zero.
pub(super) fn plain(schema: &Schema) -> Value {
    match schema.kind {
        Type::Any => any(schema),
        Type::Object if schema.preserve_unknown => json!({ "a": [1, null] }),
        Type::Object => json!({}),
        Type::Array => json!([]),
        Type::String => match schema.format.as_str() {
            "date-time" if schema.definition.ends_with(".MicroTime") => {
                json!("2024-01-02T03:04:05.000006Z")
            }
            "date-time" => json!("2024-01-02T03:04:05Z"),
            "byte" => json!("YQ=="),
            _ => json!("a"),
        },
        Type::IntOrString if schema.format == "quantity" => json!("7"),
        Type::IntOrString => json!("http"),
        Type::Integer => json!(7),
        Type::Number => json!(7.5),
        Type::Boolean => json!(true),
    }
}

/// What the types are that OpenAPI leaves open.
fn any(schema: &Schema) -> Value {
    match schema.definition.rsplit('.').next().unwrap_or_default() {
        "JSONSchemaPropsOrArray" => json!({ "type": "string" }),
        "JSONSchemaPropsOrBool" => json!(false),
        "JSONSchemaPropsOrStringArray" => json!(["a"]),
        _ => json!({ "a": [1, null] }),
    }
}

pub(super) struct Draw {
    seed: u64,
    /// The definitions that are being drawn.
    open: Vec<String>,
}

impl Draw {
    pub(super) fn new(seed: u64) -> Self {
        Self { seed, open: Vec::new() }
    }

    fn next(&mut self, end: u64) -> u64 {
        self.seed = self
            .seed
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.seed >> 33) % end
    }

    /// A value, now and then one with nothing in it.
    pub(super) fn value(&mut self, schema: &SchemaRef) -> Value {
        let schema = schema.resolve();
        match schema.kind {
            Type::Object if !schema.properties.is_empty() => self.object(&schema),
            Type::Object if schema.additional.is_some() => {
                let values = schema.additional.clone().into_iter();
                let n_values = usize::from(self.next(4) > 0);
                values.take(n_values).map(|it| ("k".to_owned(), self.value(&it))).collect()
            }
            Type::Array => {
                let n_items = self.next(3);
                let item = schema.items.clone().unwrap_or_default();
                (0..n_items).map(|_| self.value(&item)).collect()
            }
            Type::Integer if self.next(4) == 0 => json!(0),
            Type::Boolean if self.next(2) == 0 => json!(false),
            Type::String if schema.format.is_empty() && self.next(4) == 0 => json!(""),
            _ => plain(&schema),
        }
    }

    fn object(&mut self, schema: &SchemaRef) -> Value {
        let n_open = self.open.iter().filter(|it| **it == schema.definition).count();
        if n_open > NESTED_MAX {
            return json!({});
        }
        self.open.push(schema.definition.clone());
        // Protobuf has the names of objects around them, and those of options nowhere.
        let is_named = schema.properties.contains_key("metadata")
            || schema.definition.ends_with(".DeleteOptions");
        let mut fields = Map::new();
        for (name, field) in &schema.properties {
            let is_name = is_named && matches!(name.as_str(), "apiVersion" | "kind");
            if is_name || self.next(5) < 2 {
                continue;
            }
            fields.insert(name.clone(), self.value(field));
        }
        self.open.pop();
        Value::Object(fields)
    }
}
