//! What Go reads where typed structs are stricter. In Go, `null` in a list, in a map or for a field
//! is the zero value of its type, and so is a field that is absent.

use serde_json::{Map, Value, json};

use super::{Schema, SchemaRef, Type, anything};
use crate::quantity;

const ZERO_TIME: &str = "0001-01-01T00:00:00Z";

/// Puts zero values where they have to be in an object.
pub(super) fn fill_in_zeros(schema: &SchemaRef, object: &mut Value) {
    if let Some(fields) = object.as_object_mut() {
        // Names that it does not say are not wrong.
        fields.retain(|name, value| {
            let is_name = name == "apiVersion" || name == "kind";
            !is_name || !(value.is_null() || value == "")
        });
    }
    fill_in(schema, object, &Place::Root);
}

#[derive(PartialEq, Eq)]
enum Place {
    Root,
    Inside,
}

fn fill_in(schema: &SchemaRef, value: &mut Value, place: &Place) {
    let schema = schema.resolve();
    match value {
        Value::Object(fields) => {
            if *place == Place::Inside {
                drop_names(&schema, fields);
            }
            add_times(&schema, fields);
            drop_unread(&schema, fields);
            for (name, value) in fields.iter_mut() {
                if let Some(field) = schema.properties.get(name) {
                    fill_in(field, value, &Place::Inside);
                } else if let Some(field) = &schema.additional {
                    fill_in_place(field, value);
                }
            }
        }
        Value::Array(items) => {
            let item = schema.items.as_ref().unwrap_or_else(|| anything());
            for value in items {
                fill_in_place(item, value);
            }
        }
        _ => {}
    }
}

/// The same for a value that cannot be absent.
fn fill_in_place(schema: &SchemaRef, value: &mut Value) {
    if value.is_null() {
        *value = zero(&schema.resolve());
    }
    fill_in(schema, value, &Place::Inside);
}

fn zero(schema: &Schema) -> Value {
    match schema.kind {
        Type::Any => Value::Null,
        Type::Object => json!({}),
        Type::Array => json!([]),
        Type::String if is_time(schema) => json!(ZERO_TIME),
        Type::String => json!(""),
        Type::IntOrString if schema.format == "quantity" => json!("0"),
        Type::Integer | Type::Number | Type::IntOrString => json!(0),
        Type::Boolean => json!(false),
    }
}

fn is_time(schema: &Schema) -> bool {
    schema.kind == Type::String && schema.format == "date-time"
}

/// Objects inside are of the kind that their place says, whatever they say.
fn drop_names(schema: &Schema, fields: &mut Map<String, Value>) {
    // References to objects have names, but no metadata.
    if ["apiVersion", "kind", "metadata"].iter().all(|it| schema.properties.contains_key(*it)) {
        fields.remove("apiVersion");
        fields.remove("kind");
    }
}

/// Types of Go's that read themselves, and make nothing of what is neither a map nor a list.
const READ_PARTLY: &[&str] = &[".JSONSchemaPropsOrArray", ".JSONSchemaPropsOrStringArray"];

fn drop_unread(schema: &Schema, fields: &mut Map<String, Value>) {
    fields.retain(|name, value| {
        let field = schema.field(name).map(|it| it.resolve());
        let is_partly =
            field.is_some_and(|it| READ_PARTLY.iter().any(|of| it.definition.ends_with(of)));
        !is_partly || value.is_object() || value.is_array()
    });
}

/// Times are what typed structs have no zero value for.
fn add_times(schema: &Schema, fields: &mut Map<String, Value>) {
    for name in &schema.required {
        let is_absent = fields.get(name).is_none_or(Value::is_null);
        if is_absent && schema.properties.get(name).is_some_and(|it| is_time(&it.resolve())) {
            fields.insert(name.clone(), json!(ZERO_TIME));
        }
    }
}

pub(super) fn drop_empties(schema: &SchemaRef, value: &mut Value) {
    let schema = schema.resolve();
    match value {
        Value::Object(fields) => {
            fields.retain(|name, value| {
                let Some(field) = schema.field(name) else { return true };
                drop_empties(field, value);
                // What a map has under a key is there, with or without something in it.
                !schema.properties.contains_key(name) || !is_empty(&field.resolve(), value)
            });
        }
        Value::Array(items) => {
            let item = schema.items.as_ref().unwrap_or_else(|| anything());
            items.iter_mut().for_each(|it| drop_empties(item, it));
        }
        _ => {}
    }
}

pub(super) fn write_quantities(schema: &SchemaRef, value: &mut Value) {
    let schema = schema.resolve();
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                if let Some(field) = schema.field(name) {
                    write_quantities(field, value);
                }
            }
        }
        Value::Array(items) => {
            let item = schema.items.as_ref().unwrap_or_else(|| anything());
            items.iter_mut().for_each(|it| write_quantities(item, it));
        }
        Value::String(text) if schema.is_quantity() => {
            if let Some(canonical) = quantity::canonical(text) {
                *text = canonical;
            }
        }
        _ => {}
    }
}

/// What Go makes of numbers that its types are too small for, where it converts and does not read.
pub(super) fn wrap_integers(schema: &SchemaRef, value: &mut Value) {
    let schema = schema.resolve();
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                if let Some(field) = schema.field(name) {
                    wrap_integers(field, value);
                }
            }
        }
        Value::Array(items) => {
            let item = schema.items.as_ref().unwrap_or_else(|| anything());
            items.iter_mut().for_each(|it| wrap_integers(item, it));
        }
        Value::Number(number) if schema.kind == Type::Integer && schema.format == "int32" => {
            if let Some(wide) = number.as_i64().filter(|it| i32::try_from(*it).is_err()) {
                *value = json!(wide as i32);
            }
        }
        _ => {}
    }
}

pub(super) fn is_empty(schema: &Schema, value: &Value) -> bool {
    match value {
        Value::Array(items) => schema.kind == Type::Array && items.is_empty(),
        Value::Object(fields) => is_map(schema) && fields.is_empty(),
        _ => false,
    }
}

/// With keys of any name, and no fields.
pub(super) fn is_map(schema: &Schema) -> bool {
    schema.kind == Type::Object && schema.additional.is_some() && schema.properties.is_empty()
}
