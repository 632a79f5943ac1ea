//! OpenAPI 2.0.

use serde_json::Value;

use super::Shape::{self, Any, EachAny, Flag, Integer, Number, OneOf, Text, Wrapped};
use super::{Message, map, message};

pub const MEDIA_TYPE: &str = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";
/// The name it had first, which is not a valid media type; old clients still send it.
pub const MEDIA_TYPE_OLD: &str = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf";

/// The whole document.
pub(in crate::openapi) fn encode(document: &Value) -> Vec<u8> {
    super::encode(&DOCUMENT, document)
}

static DOCUMENT: Message = message(
    &[
        ("swagger", 1, Text),
        ("info", 2, Shape::Message(&INFO)),
        ("host", 3, Text),
        ("basePath", 4, Text),
        ("schemes", 5, Text),
        ("consumes", 6, Text),
        ("produces", 7, Text),
        ("paths", 8, Shape::Message(&PATHS)),
        ("definitions", 9, Shape::Message(&SCHEMAS)),
        ("parameters", 10, Shape::Message(&PARAMETERS)),
    ],
    16,
);

static INFO: Message =
    message(&[("title", 1, Text), ("version", 2, Text), ("description", 3, Text)], 7);

static PATHS: Message =
    Message { fields: &[], extensions: Some(1), entries: Some((2, Shape::Message(&PATH_ITEM))) };

static PATH_ITEM: Message = message(
    &[
        ("$ref", 1, Text),
        ("get", 2, Shape::Message(&OPERATION)),
        ("put", 3, Shape::Message(&OPERATION)),
        ("post", 4, Shape::Message(&OPERATION)),
        ("delete", 5, Shape::Message(&OPERATION)),
        ("options", 6, Shape::Message(&OPERATION)),
        ("head", 7, Shape::Message(&OPERATION)),
        ("patch", 8, Shape::Message(&OPERATION)),
        ("parameters", 9, OneOf(parameter_or_reference)),
    ],
    10,
);

static OPERATION: Message = message(
    &[
        ("tags", 1, Text),
        ("summary", 2, Text),
        ("description", 3, Text),
        ("operationId", 5, Text),
        ("produces", 6, Text),
        ("consumes", 7, Text),
        ("parameters", 8, OneOf(parameter_or_reference)),
        ("responses", 9, Shape::Message(&RESPONSES)),
        ("schemes", 10, Text),
        ("deprecated", 11, Flag),
    ],
    13,
);

fn is_reference(value: &Value) -> bool {
    value.get("$ref").is_some()
}

static REFERENCE: Message = Message {
    fields: &[("$ref", 1, Text), ("description", 2, Text)],
    extensions: None,
    entries: None,
};

fn parameter_or_reference(value: &Value) -> (u32, Shape) {
    if is_reference(value) { (2, Shape::Message(&REFERENCE)) } else { (1, OneOf(parameter)) }
}

fn parameter(value: &Value) -> (u32, Shape) {
    if value["in"] == "body" { (1, Shape::Message(&BODY)) } else { (2, OneOf(non_body)) }
}

fn non_body(value: &Value) -> (u32, Shape) {
    match value["in"].as_str() {
        Some("header") => (1, Shape::Message(&HEADER_OR_PATH)),
        Some("formData") => (2, Shape::Message(&QUERY_OR_FORM)),
        Some("path") => (4, Shape::Message(&HEADER_OR_PATH)),
        _ => (3, Shape::Message(&QUERY_OR_FORM)),
    }
}

static PARAMETERS: Message = map(1, OneOf(parameter));

static BODY: Message = message(
    &[
        ("description", 1, Text),
        ("name", 2, Text),
        ("in", 3, Text),
        ("required", 4, Flag),
        ("schema", 5, Shape::Message(&SCHEMA)),
    ],
    6,
);

static HEADER_OR_PATH: Message = message(
    &[
        ("required", 1, Flag),
        ("in", 2, Text),
        ("description", 3, Text),
        ("name", 4, Text),
        ("type", 5, Text),
        ("format", 6, Text),
        ("default", 9, Any),
        ("pattern", 16, Text),
        ("uniqueItems", 19, Flag),
        ("enum", 20, EachAny),
    ],
    22,
);

/// As the others, but these can be empty: most numbers are one more.
static QUERY_OR_FORM: Message = message(
    &[
        ("required", 1, Flag),
        ("in", 2, Text),
        ("description", 3, Text),
        ("name", 4, Text),
        ("allowEmptyValue", 5, Flag),
        ("type", 6, Text),
        ("format", 7, Text),
        ("default", 10, Any),
        ("pattern", 17, Text),
        ("uniqueItems", 20, Flag),
        ("enum", 21, EachAny),
    ],
    23,
);

static RESPONSES: Message =
    Message { fields: &[], extensions: Some(2), entries: Some((1, OneOf(response_or_reference))) };

fn response_or_reference(value: &Value) -> (u32, Shape) {
    if is_reference(value) {
        (2, Shape::Message(&REFERENCE))
    } else {
        (1, Shape::Message(&RESPONSE))
    }
}

static RESPONSE: Message =
    message(&[("description", 1, Text), ("schema", 2, Wrapped(1, &Shape::Message(&SCHEMA)))], 5);

static SCHEMAS: Message = map(1, Shape::Message(&SCHEMA));

static SCHEMA: Message = message(
    &[
        ("$ref", 1, Text),
        ("format", 2, Text),
        ("title", 3, Text),
        ("description", 4, Text),
        ("default", 5, Any),
        ("multipleOf", 6, Number),
        ("maximum", 7, Number),
        ("exclusiveMaximum", 8, Flag),
        ("minimum", 9, Number),
        ("exclusiveMinimum", 10, Flag),
        ("maxLength", 11, Integer),
        ("minLength", 12, Integer),
        ("pattern", 13, Text),
        ("maxItems", 14, Integer),
        ("minItems", 15, Integer),
        ("uniqueItems", 16, Flag),
        ("maxProperties", 17, Integer),
        ("minProperties", 18, Integer),
        ("required", 19, Text),
        ("enum", 20, EachAny),
        ("additionalProperties", 21, OneOf(schema_or_flag)),
        ("type", 22, Wrapped(1, &Text)),
        ("items", 23, Wrapped(1, &Shape::Message(&SCHEMA))),
        ("allOf", 24, Shape::Message(&SCHEMA)),
        ("properties", 25, Shape::Message(&SCHEMAS)),
        ("discriminator", 26, Text),
        ("readOnly", 27, Flag),
        ("externalDocs", 29, Shape::Message(&EXTERNAL_DOCS)),
        ("example", 30, Any),
    ],
    31,
);

fn schema_or_flag(value: &Value) -> (u32, Shape) {
    if value.is_boolean() { (2, Flag) } else { (1, Shape::Message(&SCHEMA)) }
}

static EXTERNAL_DOCS: Message = message(&[("description", 1, Text), ("url", 2, Text)], 3);
