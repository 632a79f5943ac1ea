//! The one place where an `ApiError` becomes an HTTP response.

use api::protobuf;
use apimachinery::ApiError;
use bytes::Bytes;
use http::{Response, StatusCode, header};
use http_body_util::{BodyExt as _, Full};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ListMeta, Status, StatusDetails};

use super::negotiate::{Form, Media};
use super::{Body, written};

pub(crate) fn full(bytes: impl Into<Bytes>) -> Body {
    Full::new(bytes.into()).map_err(|never| match never {}).boxed_unsync()
}

pub(super) fn json(code: u16, bytes: impl Into<Bytes>) -> Response<Body> {
    let mut response = Response::new(full(bytes));
    *response.status_mut() =
        StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    response
        .headers_mut()
        .insert(header::CONTENT_TYPE, header::HeaderValue::from_static("application/json"));
    response
}

/// The same with another medium than JSON.
pub(super) fn of_media(code: u16, media: Media, bytes: impl Into<Bytes>) -> Response<Body> {
    let mut response = json(code, bytes);
    let name = header::HeaderValue::from_static(media.name());
    response.headers_mut().insert(header::CONTENT_TYPE, name);
    response
}

pub(crate) fn text(code: u16, text: impl Into<Bytes>) -> Response<Body> {
    let mut response = json(code, text);
    response.headers_mut().insert(
        header::CONTENT_TYPE,
        header::HeaderValue::from_static("text/plain; charset=utf-8"),
    );
    response
}

pub(super) fn refuse(error: &ApiError) -> Response<Body> {
    refuse_in(Form::JSON, error)
}

pub(super) fn refuse_in(form: Form, error: &ApiError) -> Response<Body> {
    let mut response = respond(error.code(), error_object(error), form);
    if let Some(seconds) = error.retry_after_seconds() {
        response.headers_mut().insert(header::RETRY_AFTER, seconds.into());
    }
    response
}

/// The object of an ERROR event in a watch.
pub(super) fn error_object(error: &ApiError) -> Vec<u8> {
    serde_json::to_vec(&error.to_status()).unwrap_or_default()
}

fn respond(code: u16, status: Vec<u8>, form: Form) -> Response<Body> {
    let bytes = match form.media {
        Media::Protobuf => to_protobuf(&status).into(),
        _ => written::text(status.into(), form),
    };
    of_media(code, form.media, bytes)
}

/// A Status from JSON to protobuf.
pub(super) fn to_protobuf(status: &[u8]) -> Vec<u8> {
    let message = protobuf::message(protobuf::STATUS).expect("the table has Status");
    protobuf::encode(message, ("v1", "Status"), status).unwrap_or_default()
}

pub(super) fn success(code: u16, details: StatusDetails, form: Form) -> Response<Body> {
    let is_empty = details == StatusDetails::default();
    let status = Status {
        status: Some("Success".to_owned()),
        code: (code != 200).then_some(code.into()),
        details: (!is_empty).then_some(details),
        metadata: ListMeta::default(),
        ..Status::default()
    };
    respond(code, serde_json::to_vec(&status).unwrap_or_default(), form)
}
