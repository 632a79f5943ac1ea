//! From an answer of the pipeline to a response: form, indentation, compression, warnings.

use admission::Notes;
use api::{Kind, Stored, protobuf};
use apimachinery::ApiError;
use bytes::Bytes;
use http::{HeaderValue, Response, header};
use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::negotiate::{self, Form, Media, Shape};
use super::sent::{self, Content, Listed};
use super::table::{self, Include};
use super::{Body, status, written};
use crate::cache::inexpressible;
use crate::flow::Seat;
use crate::pipeline::{Answer, ListAnswer, Outcome};

/// Answers above this size are compressed for clients that accept it.
const GZIP_MIN: usize = 128 * 1024;

/// How the client wants its answer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wish {
    pub(super) form: Form,
    pub(super) include: Include,
    pub(super) accepts_gzip: bool,
    pub(super) now: Timestamp,
}

/// The bytes that the answer has to be made from, if it does not just share what the cache has.
pub(super) fn own_bytes(answer: &Answer, wish: Wish) -> usize {
    let is_shared = wish.form == Form::JSON;
    match &answer.outcome {
        _ if is_shared => 0,
        Outcome::Object(object) => object.bytes.len(),
        Outcome::List(list) => list.items.iter().map(|it| it.bytes.len()).sum(),
        Outcome::Done(_) => 0,
    }
}

pub(super) fn answer(answer: Answer, wish: Wish) -> Result<Response<Body>, ApiError> {
    let (kind, seat) = (answer.kind.as_ref(), answer.seat);
    let content = match answer.outcome {
        Outcome::Done(details) => return Ok(status::success(answer.code, *details, wish.form)),
        outcome if wish.form.media == Media::Protobuf => {
            // A stored object that the table cannot express: the client can still ask for JSON.
            let bytes = in_protobuf(kind, &outcome, wish.form)?.map_err(inexpressible)?;
            Content::Whole(bytes.into())
        }
        Outcome::Object(object) => {
            let bytes = object_bytes(kind, &object, wish)?;
            Content::Whole(written::text(bytes, wish.form))
        }
        Outcome::List(list) => match list_content(kind, list, wish)? {
            content if wish.form.media == Media::Json && !wish.form.is_pretty => content,
            content => Content::Whole(written::text(content.into_bytes(), wish.form)),
        },
    };
    let response = status::of_media(answer.code, wish.form.media, "");
    Ok(finish(response, content, wish, seat))
}

fn in_protobuf(
    kind: &dyn Kind,
    outcome: &Outcome,
    form: Form,
) -> Result<serde_json::Result<Vec<u8>>, ApiError> {
    Ok(match (outcome, form.shape) {
        (Outcome::Object(object), Shape::Metadata) => {
            protobuf_metadata(&object.bytes, form.api_version)
        }
        (Outcome::Object(object), Shape::Plain) => protobuf::encode_object(&object.bytes),
        (Outcome::List(list), Shape::MetadataList) => {
            let items: Vec<String> = list
                .items
                .iter()
                .map(|it| table::metadata(&it.bytes, form.api_version).to_string())
                .collect();
            let names = (form.api_version, "PartialObjectMetadataList");
            let items = items.iter().map(String::as_bytes);
            protobuf::encode_list(
                metadata_message(),
                names,
                list_meta(list, false).as_bytes(),
                items,
            )
        }
        (Outcome::List(list), Shape::Plain) => protobuf_list(kind, list),
        (Outcome::Object(_), _) => return Err(no_list(kind)),
        (Outcome::List(_), _) => return Err(no_object(kind)),
        (Outcome::Done(_), _) => Ok(Vec::new()),
    })
}

fn metadata_message() -> protobuf::Message {
    protobuf::message(protobuf::PARTIAL_OBJECT_METADATA)
        .expect("the table has PartialObjectMetadata")
}

/// An object's PartialObjectMetadata, in its envelope.
pub(super) fn protobuf_metadata(bytes: &[u8], api_version: &str) -> serde_json::Result<Vec<u8>> {
    let metadata = table::metadata(bytes, api_version).to_string();
    let names = (api_version, "PartialObjectMetadata");
    protobuf::encode(metadata_message(), names, metadata.as_bytes())
}

fn protobuf_list(kind: &dyn Kind, list: &ListAnswer) -> serde_json::Result<Vec<u8>> {
    let names = kind.names();
    let message = protobuf::message_of(&names.gvk())
        .ok_or_else(|| serde::de::Error::custom("the kind has no protobuf"))?;
    let items = list.items.iter().map(|it| &it.bytes[..]);
    let names = (names.api_version(), &names.list_kind);
    protobuf::encode_list(message, (&names.0, names.1), list_meta(list, false).as_bytes(), items)
}

fn no_object(kind: &dyn Kind) -> ApiError {
    let list = internal_type(kind, &kind.names().list_kind);
    negotiate::refused(&format!(
        "you requested PartialObjectMetadata, but the requested object is a list ({list})"
    ))
}

fn no_list(kind: &dyn Kind) -> ApiError {
    let object = internal_type(kind, &kind.names().kind);
    negotiate::refused(&format!(
        "you requested PartialObjectMetadataList, but the requested object is not a list ({object})"
    ))
}

/// What upstream calls the type inside, as its refusals tell.
fn internal_type(kind: &dyn Kind, name: &str) -> String {
    let names = kind.names();
    match names.group.split('.').next() {
        _ if kind.is_custom() && name == names.kind => "*unstructured.Unstructured".to_owned(),
        _ if kind.is_custom() => "*unstructured.UnstructuredList".to_owned(),
        None | Some("") => format!("*core.{name}"),
        Some(package) => format!("*{package}.{name}"),
    }
}

fn object_bytes(kind: &dyn Kind, object: &Stored, wish: Wish) -> Result<Bytes, ApiError> {
    Ok(match wish.form.shape {
        Shape::Plain | Shape::Discovery => object.bytes.clone(),
        Shape::Metadata => table::metadata(&object.bytes, wish.form.api_version).to_string().into(),
        Shape::MetadataList => return Err(no_list(kind)),
        Shape::Table => {
            let meta = json!({ "resourceVersion": object.meta.resource_version.to_string() });
            table::render(kind, &[object], meta, wish).to_string().into()
        }
    })
}

fn list_meta(list: &ListAnswer, untyped: bool) -> String {
    let mut meta = Map::new();
    // What is not stored has no version.
    if list.resource_version != 0 {
        meta.insert("resourceVersion".to_owned(), json!(list.resource_version.to_string()));
    }
    match &list.continue_token {
        Some(token) => drop(meta.insert("continue".to_owned(), json!(token))),
        // Lists of objects without a type in Go always say it.
        None if untyped => drop(meta.insert("continue".to_owned(), json!(""))),
        None => {}
    }
    if let Some(remaining) = list.remaining {
        meta.insert("remainingItemCount".to_owned(), json!(remaining));
    }
    Value::Object(meta).to_string()
}

/// Items go out as they are; only what is around them is written.
fn list_content(kind: &dyn Kind, list: ListAnswer, wish: Wish) -> Result<Content, ApiError> {
    let meta = list_meta(&list, kind.is_custom() && wish.form.shape == Shape::Plain);
    let names = kind.names();
    let (list_kind, version) = match wish.form.shape {
        Shape::Metadata => return Err(no_object(kind)),
        Shape::Table => {
            let objects: Vec<&Stored> = list.items.iter().map(AsRef::as_ref).collect();
            let meta = serde_json::from_str(&meta).unwrap_or_default();
            let table = table::render(kind, &objects, meta, wish);
            return Ok(Content::Whole(table.to_string().into()));
        }
        Shape::MetadataList => ("PartialObjectMetadataList", wish.form.api_version.to_owned()),
        Shape::Plain | Shape::Discovery => (names.list_kind.as_str(), names.api_version()),
    };
    let mut head = format!(
        "{{\"kind\":{},\"apiVersion\":{},\"metadata\":{meta},\"items\":[",
        json!(list_kind),
        json!(version)
    );
    if wish.form.shape != Shape::MetadataList {
        return Ok(Content::List(Listed::new(head, list.items)));
    }
    for (index, item) in list.items.iter().enumerate() {
        if index > 0 {
            head.push(',');
        }
        head.push_str(&table::metadata(&item.bytes, wish.form.api_version).to_string());
    }
    head.push_str("]}");
    Ok(Content::Whole(head.into()))
}

fn finish(
    mut response: Response<Body>,
    content: Content,
    wish: Wish,
    seat: Seat,
) -> Response<Body> {
    if content.len() > GZIP_MIN && wish.accepts_gzip {
        *response.body_mut() = sent::gzipped(content, seat);
        return gzipped(response);
    }
    *response.body_mut() = sent::plain(content, seat);
    response
}

pub(super) fn gzipped(mut response: Response<Body>) -> Response<Body> {
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    headers.append(header::VARY, HeaderValue::from_static("Accept-Encoding"));
    response
}

/// `Warning: 299 - "text"`, within the size that clients can take.
pub(super) fn warn(response: &mut Response<Body>, notes: &Notes) {
    for warning in notes.warnings() {
        let text: String = warning.chars().filter(|it| !it.is_control()).collect();
        let text = text.replace('\\', "\\\\").replace('"', "\\\"");
        if let Ok(value) = HeaderValue::from_bytes(format!("299 - \"{text}\"").as_bytes()) {
            response.headers_mut().append(header::WARNING, value);
        }
    }
}
