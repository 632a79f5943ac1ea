//! Fields that no schema names. Other than pruning it looks at what is there, and an object of which
//! nothing is named may have anything in it: that it is pruned later is another matter.

use serde_json::Value;

use super::{ListType, Schema, SchemaRef, Type};

/// Nobody reads more.
const FOUND_MAX: usize = 100;

pub(super) fn find(schema: &SchemaRef, value: &Value, path: &mut String, found: &mut Vec<String>) {
    let schema = schema.resolve();
    let length = path.len();
    match value {
        Value::Object(fields) if schema.kind == Type::Object => {
            let is_open = schema.preserve_unknown
                || (schema.properties.is_empty() && schema.additional.is_none());
            for (name, value) in fields {
                path.push('.');
                path.push_str(name);
                match schema.field(name) {
                    Some(field) => find(field, value, path, found),
                    None if is_open || found.len() >= FOUND_MAX => {}
                    None => found.push(path.clone()),
                }
                path.truncate(length);
            }
        }
        Value::Array(items) => {
            let Some(item) = &schema.items else { return };
            for (index, value) in items.iter().enumerate() {
                path.push_str(&element(&schema, value, index));
                find(item, value, path, found);
                path.truncate(length);
            }
        }
        _ => {}
    }
}

/// `[name="a"]` for an item that is found by its keys, and `[0]` for others.
fn element(schema: &Schema, value: &Value, index: usize) -> String {
    if let ListType::Map { keys } = &schema.list_type {
        let mut keys: Vec<&String> = keys.iter().collect();
        keys.sort();
        let pairs: Option<Vec<String>> =
            keys.iter().map(|it| Some(format!("{it}={}", value.get(it.as_str())?))).collect();
        if let Some(pairs) = pairs {
            return format!("[{}]", pairs.join(","));
        }
    }
    format!("[{index}]")
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use crate::schema::Schema;
    use crate::{FieldErrors, Path};

    fn check(value: &Value, expected: &[&str]) {
        let text = json!({"type": "string"});
        let port =
            json!({"type": "object", "properties": {"port": {"type": "integer"}, "name": text}});
        let written = json!({
            "type": "object",
            "properties": {"spec": {"type": "object", "properties": {
                "a": text, "any": {"type": "object"},
                "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
                "map": {"type": "object", "additionalProperties": {"type": "object", "properties": {"a": text}}},
                "ports": {
                    "type": "array", "items": port, "x-kubernetes-list-type": "map",
                    "x-kubernetes-list-map-keys": ["port", "name"],
                },
                "plain": {"type": "array", "items": {"type": "object", "properties": {"a": text}}},
                "other": {
                    "type": "object", "x-kubernetes-embedded-resource": true,
                    "properties": {"spec": {"type": "object"}},
                },
            }}},
        });
        let schema = Schema::from_open_api(&written, &Path::root(), &mut FieldErrors::new());
        assert_eq!(schema.undeclared(value), expected, "{value}");
    }

    #[test]
    fn what_no_schema_names_is_found_wherever_it_is() {
        check(&json!({"spec": {"a": "x"}, "metadata": {"name": "a", "labels": {"l": "m"}}}), &[]);
        check(&json!({"unknown": 1, "spec": {"b": 1}}), &[".spec.b", ".unknown"]);
        check(&json!({"metadata": {"unknownMeta": 1}}), &[".metadata.unknownMeta"]);
        check(
            &json!({"spec": {"any": {"x": 1}, "free": {"x": 1}, "map": {"k": {"x": 1}}}}),
            &[".spec.map.k.x"],
        );
        check(
            &json!({"spec": {"ports": [{"port": 80, "name": "a", "x": 1}, {"x": 1}], "plain": [{}, {"x": 1}]}}),
            &[".spec.plain[1].x", ".spec.ports[name=\"a\",port=80].x", ".spec.ports[1].x"],
        );
        check(
            &json!({"spec": {"other": {"apiVersion": "v1", "kind": "X", "metadata": {"sub": 1}}}}),
            &[".spec.other.metadata.sub"],
        );
    }
}
