//! Pruning and defaulting: making an object fit its schema.

use serde_json::{Map, Value};

use super::{Schema, SchemaRef, Type, anything};

/// Whether fields that the schema does not name are kept.
pub(super) fn is_open(schema: &Schema) -> bool {
    match schema.kind {
        Type::Object => schema.accepts_any_field(),
        Type::Any => true,
        _ => schema.preserve_unknown,
    }
}

/// Removes the fields that the schema does not know, and notes their paths.
pub(super) fn prune(
    schema: &SchemaRef,
    value: &mut Value,
    path: &mut String,
    removed: &mut Vec<String>,
) {
    let schema = schema.resolve();
    let length = path.len();
    match value {
        Value::Object(fields) => {
            let is_open = is_open(&schema);
            fields.retain(|name, value| {
                if length > 0 {
                    path.push('.');
                }
                path.push_str(name);
                let known = schema.field(name);
                match known {
                    Some(field) => prune(field, value, path, removed),
                    None if is_open => {}
                    None => removed.push(path.clone()),
                }
                path.truncate(length);
                known.is_some() || is_open
            });
        }
        Value::Array(items) => {
            let item = schema.items.as_ref().unwrap_or_else(|| anything());
            for (index, value) in items.iter_mut().enumerate() {
                path.push_str(&format!("[{index}]"));
                prune(item, value, path, removed);
                path.truncate(length);
            }
        }
        _ => {}
    }
}

/// Fills in what is missing, and what is null but may not be: without a default that goes. Whether
/// there was any.
pub(super) fn apply_defaults(schema: &SchemaRef, value: &mut Value) -> bool {
    let schema = schema.resolve();
    let mut is_changed = false;
    match value {
        Value::Object(fields) => {
            is_changed |= drop_idle_nulls(&schema, fields);
            for (name, field) in &schema.properties {
                is_changed |= fill_in(fields, name, field);
            }
            for (name, value) in fields.iter_mut() {
                if let Some(field) = schema.field(name) {
                    is_changed |= replace_null(field, value);
                    is_changed |= apply_defaults(field, value);
                }
            }
        }
        Value::Array(items) => {
            if let Some(item) = &schema.items {
                for value in items {
                    is_changed |= replace_null(item, value);
                    is_changed |= apply_defaults(item, value);
                }
            }
        }
        _ => {}
    }
    is_changed
}

/// The same without filling anything in.
pub(super) fn drop_nulls(schema: &SchemaRef, value: &mut Value) {
    let schema = schema.resolve();
    match value {
        Value::Object(fields) => {
            drop_idle_nulls(&schema, fields);
            for (name, value) in fields.iter_mut() {
                if let Some(field) = schema.field(name) {
                    drop_nulls(field, value);
                }
            }
        }
        Value::Array(items) => {
            if let Some(item) = &schema.items {
                items.iter_mut().for_each(|it| drop_nulls(item, it));
            }
        }
        _ => {}
    }
}

/// Nulls that may not be, and that no default takes the place of. Whether there was any.
fn drop_idle_nulls(schema: &Schema, fields: &mut Map<String, Value>) -> bool {
    let n_fields = fields.len();
    fields.retain(|name, value| {
        let is_idle = |it: &SchemaRef| !it.nullable && it.default.is_none();
        !(value.is_null() && schema.field(name).is_some_and(is_idle))
    });
    fields.len() < n_fields
}

/// What no property names, and items, are there or not; null is not what they may be.
fn replace_null(schema: &SchemaRef, value: &mut Value) -> bool {
    let default = schema.default.as_ref().filter(|_| value.is_null() && !schema.nullable);
    if let Some(default) = default {
        value.clone_from(default);
    }
    default.is_some()
}

fn fill_in(fields: &mut Map<String, Value>, name: &str, field: &SchemaRef) -> bool {
    let Some(default) = &field.default else {
        return false;
    };
    let is_missing = match fields.get(name) {
        None => true,
        Some(value) => value.is_null() && !field.nullable,
    };
    if is_missing {
        fields.insert(name.to_owned(), default.clone());
    }
    is_missing
}
