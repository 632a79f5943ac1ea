//! OpenAPI 3.0.

use serde_json::Value;

use super::Shape::{self, Any, EachAny, Flag, Integer, Number, OneOf, Text, Wrapped};
use super::{Message, map, message};

pub const MEDIA_TYPE: &str = "application/com.github.proto-openapi.spec.v3.v1.0+protobuf";
/// The name it had first, which is not a valid media type; old clients still send it.
pub const MEDIA_TYPE_OLD: &str = "application/com.github.proto-openapi.spec.v3@v1.0+protobuf";

/// The whole document.
pub(in crate::openapi) fn encode(document: &Value) -> Vec<u8> {
    super::encode(&DOCUMENT, document)
}

static DOCUMENT: Message = message(
    &[
        ("openapi", 1, Text),
        ("info", 2, Shape::Message(&INFO)),
        ("paths", 4, Shape::Message(&PATHS)),
        ("components", 5, Shape::Message(&COMPONENTS)),
    ],
    9,
);

static INFO: Message =
    message(&[("title", 1, Text), ("description", 2, Text), ("version", 6, Text)], 7);

static COMPONENTS: Message = message(&[("schemas", 1, Shape::Message(&SCHEMAS))], 10);

static PATHS: Message =
    Message { fields: &[], extensions: Some(2), entries: Some((1, Shape::Message(&PATH_ITEM))) };

static PATH_ITEM: Message = message(
    &[
        ("$ref", 1, Text),
        ("summary", 2, Text),
        ("description", 3, Text),
        ("get", 4, Shape::Message(&OPERATION)),
        ("put", 5, Shape::Message(&OPERATION)),
        ("post", 6, Shape::Message(&OPERATION)),
        ("delete", 7, Shape::Message(&OPERATION)),
        ("options", 8, Shape::Message(&OPERATION)),
        ("head", 9, Shape::Message(&OPERATION)),
        ("patch", 10, Shape::Message(&OPERATION)),
        ("trace", 11, Shape::Message(&OPERATION)),
        ("parameters", 13, OneOf(parameter_or_reference)),
    ],
    14,
);

static OPERATION: Message = message(
    &[
        ("tags", 1, Text),
        ("summary", 2, Text),
        ("description", 3, Text),
        ("operationId", 5, Text),
        ("parameters", 6, OneOf(parameter_or_reference)),
        ("requestBody", 7, OneOf(body_or_reference)),
        ("responses", 8, Shape::Message(&RESPONSES)),
        ("deprecated", 10, Flag),
    ],
    13,
);

static REFERENCE: Message = Message {
    fields: &[("$ref", 1, Text), ("summary", 2, Text), ("description", 3, Text)],
    extensions: None,
    entries: None,
};

/// What stands for something, or the thing itself.
fn or_reference(value: &Value, message: &'static Message) -> (u32, Shape) {
    match value.get("$ref") {
        Some(_) => (2, Shape::Message(&REFERENCE)),
        None => (1, Shape::Message(message)),
    }
}

fn parameter_or_reference(value: &Value) -> (u32, Shape) {
    or_reference(value, &PARAMETER)
}

fn body_or_reference(value: &Value) -> (u32, Shape) {
    or_reference(value, &REQUEST_BODY)
}

fn response_or_reference(value: &Value) -> (u32, Shape) {
    or_reference(value, &RESPONSE)
}

fn schema_or_reference(value: &Value) -> (u32, Shape) {
    or_reference(value, &SCHEMA)
}

static PARAMETER: Message = message(
    &[
        ("name", 1, Text),
        ("in", 2, Text),
        ("description", 3, Text),
        ("required", 4, Flag),
        ("deprecated", 5, Flag),
        ("allowEmptyValue", 6, Flag),
        ("style", 7, Text),
        ("explode", 8, Flag),
        ("allowReserved", 9, Flag),
        ("schema", 10, OneOf(schema_or_reference)),
        ("example", 11, Any),
        ("content", 13, Shape::Message(&MEDIA_TYPES)),
    ],
    14,
);

static MEDIA_TYPES: Message = map(1, Shape::Message(&MEDIA));

static MEDIA: Message =
    message(&[("schema", 1, OneOf(schema_or_reference)), ("example", 2, Any)], 5);

static REQUEST_BODY: Message = message(
    &[
        ("description", 1, Text),
        ("content", 2, Shape::Message(&MEDIA_TYPES)),
        ("required", 3, Flag),
    ],
    4,
);

static RESPONSES: Message = Message {
    fields: &[("default", 1, OneOf(response_or_reference))],
    extensions: Some(3),
    entries: Some((2, OneOf(response_or_reference))),
};

static RESPONSE: Message =
    message(&[("description", 1, Text), ("content", 3, Shape::Message(&MEDIA_TYPES))], 5);

static SCHEMAS: Message = map(1, OneOf(schema_or_reference));

static SCHEMA: Message = message(
    &[
        ("nullable", 1, Flag),
        ("readOnly", 3, Flag),
        ("writeOnly", 4, Flag),
        ("externalDocs", 6, Shape::Message(&EXTERNAL_DOCS)),
        ("example", 7, Any),
        ("deprecated", 8, Flag),
        ("title", 9, Text),
        ("multipleOf", 10, Number),
        ("maximum", 11, Number),
        ("exclusiveMaximum", 12, Flag),
        ("minimum", 13, Number),
        ("exclusiveMinimum", 14, Flag),
        ("maxLength", 15, Integer),
        ("minLength", 16, Integer),
        ("pattern", 17, Text),
        ("maxItems", 18, Integer),
        ("minItems", 19, Integer),
        ("uniqueItems", 20, Flag),
        ("maxProperties", 21, Integer),
        ("minProperties", 22, Integer),
        ("required", 23, Text),
        ("enum", 24, EachAny),
        ("type", 25, Text),
        ("allOf", 26, OneOf(schema_or_reference)),
        ("oneOf", 27, OneOf(schema_or_reference)),
        ("anyOf", 28, OneOf(schema_or_reference)),
        ("not", 29, Shape::Message(&SCHEMA)),
        ("items", 30, Wrapped(1, &OneOf(schema_or_reference))),
        ("properties", 31, Shape::Message(&SCHEMAS)),
        ("additionalProperties", 32, OneOf(additional)),
        ("default", 33, OneOf(default)),
        ("description", 34, Text),
        ("format", 35, Text),
    ],
    36,
);

fn additional(value: &Value) -> (u32, Shape) {
    if value.is_boolean() { (2, Flag) } else { (1, OneOf(schema_or_reference)) }
}

/// Only scalars can be told; of others nothing is left.
fn default(value: &Value) -> (u32, Shape) {
    match value {
        Value::Number(_) => (1, Number),
        Value::Bool(_) => (2, Flag),
        _ => (3, Text),
    }
}

static EXTERNAL_DOCS: Message = message(&[("description", 1, Text), ("url", 2, Text)], 3);
