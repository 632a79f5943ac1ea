//! The protobuf of OpenAPI documents, as gnostic numbers it: the form in which kubectl asks for
//! `/openapi/v2`. One table per message says which keyword is which field; what is in no table has
//! no field there and is left out.

pub(super) mod v2;
pub(super) mod v3;

use serde_json::Value;

use crate::protobuf::wire::{put_bytes, put_double, put_int, put_message};

type Field = (&'static str, u32, Shape);

struct Message {
    /// Keyword, number, shape.
    fields: &'static [Field],
    /// The number of `x-` keywords, each a name with any value.
    extensions: Option<u32>,
    /// The number of all other members of a JSON object that is a map, each a name with a value.
    entries: Option<(u32, Shape)>,
}

/// How a value is written. A list under any shape but `Any` is a repeated field.
#[derive(Clone, Copy)]
enum Shape {
    Text,
    Flag,
    Integer,
    Number,
    /// JSON, which is YAML.
    Any,
    /// A list whose items are `Any`.
    EachAny,
    Message(&'static Message),
    /// A message around the value, with this field alone; a list is repeated inside of it.
    Wrapped(u32, &'static Self),
    /// A message around the value, whose one field depends on the value.
    OneOf(fn(&Value) -> (u32, Self)),
}

use Shape::{Any, EachAny, Flag, Integer, Number, OneOf, Text, Wrapped};

fn encode(message: &Message, document: &Value) -> Vec<u8> {
    let mut out = Vec::new();
    put_members(&mut out, message, document);
    out
}

fn put_members(out: &mut Vec<u8>, message: &Message, value: &Value) {
    for (name, value) in value.as_object().into_iter().flatten() {
        let field = message.fields.iter().find(|(keyword, ..)| keyword == name);
        if let Some((_, number, shape)) = field {
            put(out, *number, *shape, value);
        } else if let Some(number) = message.extensions.filter(|_| name.starts_with("x-")) {
            put_named(out, number, name, Any, value);
        } else if let Some((number, shape)) = message.entries {
            put_named(out, number, name, shape, value);
        }
    }
}

fn put_named(out: &mut Vec<u8>, number: u32, name: &str, shape: Shape, value: &Value) {
    put_message(out, number, |out| {
        put_bytes(out, 1, name.as_bytes());
        put(out, 2, shape, value);
    });
}

/// A value that does not fit its shape is left out, like an unknown keyword.
fn put(out: &mut Vec<u8>, number: u32, shape: Shape, value: &Value) {
    match (shape, value) {
        (Any, value) => {
            put_message(out, number, |out| put_bytes(out, 2, value.to_string().as_bytes()));
        }
        (EachAny, Value::Array(items)) => items.iter().for_each(|it| put(out, number, Any, it)),
        (Wrapped(inner, shape), value) => {
            put_message(out, number, |out| put(out, inner, *shape, value));
        }
        (shape, Value::Array(items)) => items.iter().for_each(|it| put(out, number, shape, it)),
        (OneOf(choose), value) => {
            let (inner, shape) = choose(value);
            put_message(out, number, |out| put(out, inner, shape, value));
        }
        (Shape::Message(message), value) => {
            put_message(out, number, |out| put_members(out, message, value));
        }
        (Text, Value::String(text)) => put_bytes(out, number, text.as_bytes()),
        (Flag, Value::Bool(flag)) => put_int(out, number, i64::from(*flag)),
        (Integer, value) => {
            if let Some(integer) = value.as_i64() {
                put_int(out, number, integer);
            }
        }
        (Number, value) => {
            if let Some(float) = value.as_f64() {
                put_double(out, number, float);
            }
        }
        (Text | Flag | EachAny, _) => {}
    }
}

const fn message(fields: &'static [Field], extensions: u32) -> Message {
    Message { fields, extensions: Some(extensions), entries: None }
}

/// A JSON object from names to values.
const fn map(number: u32, shape: Shape) -> Message {
    Message { fields: &[], extensions: None, entries: Some((number, shape)) }
}
