//! From an answer of the pipeline to a response: form, indentation, compression, warnings.

use admission::Notes;
use api::{Kind, Stored, protobuf};
use apimachinery::ApiError;
use bytes::Bytes;
use http::{HeaderValue, Response, header};
use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::negotiate::Form;
use super::sent::{self, Content, Listed};
use super::table::{self, Include};
use super::{Body, status};
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
    pub(super) is_pretty: bool,
    pub(super) accepts_gzip: bool,
    pub(super) now: Timestamp,
}

/// The bytes that the answer has to be made from, if it does not just share what the cache has.
pub(super) fn own_bytes(answer: &Answer, wish: Wish) -> usize {
    let is_shared = matches!(wish.form, Form::Plain | Form::Discovery) && !wish.is_pretty;
    match &answer.outcome {
        _ if is_shared => 0,
        Outcome::Object(object) => object.bytes.len(),
        Outcome::List(list) => list.items.iter().map(|it| it.bytes.len()).sum(),
        Outcome::Done(_) => 0,
    }
}

pub(super) fn answer(answer: Answer, wish: Wish) -> Result<Response<Body>, ApiError> {
    let (kind, seat) = (answer.kind.as_ref(), answer.seat);
    Ok(match answer.outcome {
        Outcome::Done(details) => status::success(answer.code, *details, wish.form),
        outcome if wish.form == Form::Protobuf => {
            return in_protobuf(answer.code, kind, &outcome, wish, seat);
        }
        Outcome::Object(object) => {
            let content = Content::Whole(object_bytes(kind, &object, wish));
            finish(status::json(answer.code, ""), content, wish, seat)
        }
        Outcome::List(list) => {
            finish(status::json(answer.code, ""), list_content(kind, list, wish), wish, seat)
        }
    })
}

fn in_protobuf(
    code: u16,
    kind: &dyn Kind,
    outcome: &Outcome,
    wish: Wish,
    seat: Seat,
) -> Result<Response<Body>, ApiError> {
    let encoded = match outcome {
        Outcome::Object(object) => protobuf::encode_object(&object.bytes),
        Outcome::List(list) => protobuf_list(kind, list),
        Outcome::Done(_) => Ok(Vec::new()),
    };
    // A stored object that the table cannot express: the client can still ask for JSON.
    let bytes = encoded.map_err(inexpressible)?;
    let wish = Wish { is_pretty: false, ..wish };
    Ok(finish(status::protobuf(code, ""), Content::Whole(bytes.into()), wish, seat))
}

fn protobuf_list(kind: &dyn Kind, list: &ListAnswer) -> serde_json::Result<Vec<u8>> {
    let names = kind.names();
    let message = protobuf::message_of(&names.gvk())
        .ok_or_else(|| serde::de::Error::custom("the kind has no protobuf"))?;
    let items = list.items.iter().map(|it| &it.bytes[..]);
    let meta = list_meta(list).to_string();
    protobuf::encode_list(message, (&names.api_version(), &names.list_kind), meta.as_bytes(), items)
}

fn object_bytes(kind: &dyn Kind, object: &Stored, wish: Wish) -> Bytes {
    match wish.form {
        Form::Plain | Form::Protobuf | Form::Discovery => object.bytes.clone(),
        Form::Metadata => table::metadata(&object.bytes).to_string().into(),
        Form::Table => {
            let meta = json!({ "resourceVersion": object.meta.resource_version.to_string() });
            table::render(kind, &[object], meta, wish.include, wish.now).to_string().into()
        }
    }
}

fn list_meta(list: &ListAnswer) -> Value {
    let mut meta = Map::new();
    // What is not stored has no version.
    if list.resource_version != 0 {
        meta.insert("resourceVersion".to_owned(), json!(list.resource_version.to_string()));
    }
    if let Some(token) = &list.continue_token {
        meta.insert("continue".to_owned(), json!(token));
    }
    if let Some(remaining) = list.remaining {
        meta.insert("remainingItemCount".to_owned(), json!(remaining));
    }
    Value::Object(meta)
}

/// Items go out as they are; only what is around them is written.
fn list_content(kind: &dyn Kind, list: ListAnswer, wish: Wish) -> Content {
    let meta = list_meta(&list);
    if wish.form == Form::Table {
        let objects: Vec<&Stored> = list.items.iter().map(AsRef::as_ref).collect();
        let table = table::render(kind, &objects, meta, wish.include, wish.now);
        return Content::Whole(table.to_string().into());
    }
    let names = kind.names();
    let (list_kind, version) = match wish.form {
        Form::Metadata => ("PartialObjectMetadataList", "meta.k8s.io/v1".to_owned()),
        _ => (names.list_kind.as_str(), names.api_version()),
    };
    let mut head = format!(
        "{{\"kind\":{},\"apiVersion\":{},\"metadata\":{meta},\"items\":[",
        json!(list_kind),
        json!(version)
    );
    if wish.form != Form::Metadata {
        return Content::List(Listed::new(head, list.items));
    }
    for (index, item) in list.items.iter().enumerate() {
        if index > 0 {
            head.push(',');
        }
        head.push_str(&table::metadata(&item.bytes).to_string());
    }
    head.push_str("]}");
    Content::Whole(head.into())
}

fn finish(
    mut response: Response<Body>,
    content: Content,
    wish: Wish,
    seat: Seat,
) -> Response<Body> {
    let content = if wish.is_pretty { indent(content) } else { content };
    if content.len() > GZIP_MIN && wish.accepts_gzip {
        *response.body_mut() = sent::gzipped(content, seat);
        return gzipped(response);
    }
    *response.body_mut() = sent::plain(content, seat);
    response
}

fn indent(content: Content) -> Content {
    let bytes = content.into_bytes();
    let value: Result<Value, _> = serde_json::from_slice(&bytes);
    let text = value.ok().and_then(|it| serde_json::to_vec_pretty(&it).ok());
    Content::Whole(text.map_or(bytes, |mut text| {
        text.push(b'\n');
        text.into()
    }))
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
