//! From a body to an object of the kind, with defaults filled in, and with what the client wrote
//! wrong reported as it asked for.

use api::{ApiObject, Dynamic, Kind};
use apimachinery::ApiError;
use bytes::Bytes;
use serde::Deserialize;

use super::{Body, Request, trace};

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Header<'a> {
    #[serde(borrow, default)]
    api_version: std::borrow::Cow<'a, str>,
    #[serde(borrow, default)]
    kind: std::borrow::Cow<'a, str>,
}

/// The object that the client sent, defaults applied, in the form that the rules take.
pub(super) fn decode(request: &mut Request) -> Result<Box<dyn ApiObject>, ApiError> {
    trace::passed("decode");
    let body = std::mem::replace(&mut request.call.body, Body::Empty);
    let mut object = match body {
        Body::Object(object) => match object.downcast_ref::<Dynamic>() {
            // Only the kind knows what to make of an object without a type.
            Some(dynamic) => {
                let (kind, bytes) = (request.kind.as_ref(), dynamic.encode());
                kind.decode(&bytes).map_err(|err| refuse(kind, &bytes, &err))?
            }
            None => object,
        },
        Body::Json(bytes) => from_json(request, &bytes)?,
        Body::Empty | Body::Protobuf(_) | Body::Patch(..) | Body::Delete(_) => {
            return Err(ApiError::bad_request("the request has no body"));
        }
    };
    request.kind.apply_defaults(object.as_mut());
    Ok(request.kind.to_hub(object))
}

fn from_json(request: &mut Request, bytes: &Bytes) -> Result<Box<dyn ApiObject>, ApiError> {
    let kind = request.kind.clone();
    let kind = kind.as_ref();
    match kind.decode_reporting(bytes) {
        Ok((object, found)) => {
            validate_header(kind, &found.api_version, &found.kind)?;
            if let Some(why) = found.quantity_error {
                return Err(cannot(kind, &why));
            }
            request.has_empties |= found.has_empties;
            report(request, found.problems)?;
            Ok(object)
        }
        Err(err) => {
            // An object of another kind is refused as that, not for the first of its fields.
            let header: Header<'_> = serde_json::from_slice(bytes)
                .map_err(|err| cannot(kind, &format!("json parse error: {err}")))?;
            validate_header(kind, &header.api_version, &header.kind)?;
            Err(refuse(kind, bytes, &err))
        }
    }
}

/// An object whose names are known to be right.
pub(super) fn object(request: &mut Request, bytes: &[u8]) -> Result<Box<dyn ApiObject>, ApiError> {
    let kind = request.kind.clone();
    let decoded = kind.decode_reporting(bytes);
    let (object, found) = decoded.map_err(|err| refuse(kind.as_ref(), bytes, &err))?;
    if let Some(why) = found.quantity_error {
        return Err(cannot(kind.as_ref(), &why));
    }
    request.has_empties |= found.has_empties;
    report(request, found.problems)?;
    Ok(object)
}

fn cannot(kind: &dyn Kind, why: &str) -> ApiError {
    let names = kind.names();
    ApiError::bad_request(format!(
        "{} in version {:?} cannot be handled as a {}: {why}",
        names.kind, names.version, names.kind
    ))
}

/// Missing apiVersion and kind are the ones of the path.
fn validate_header(kind: &dyn Kind, api_version: &str, name: &str) -> Result<(), ApiError> {
    let names = kind.names();
    let wanted = names.api_version();
    if !api_version.is_empty() && api_version != wanted {
        return Err(ApiError::bad_request(format!(
            "the API version in the data ({api_version}) does not match the expected API version ({wanted})"
        )));
    }
    if !name.is_empty() && name != names.kind {
        return Err(ApiError::bad_request(format!(
            "{name} in version {:?} cannot be handled as a {}: no kind {name:?} is expected here",
            names.version, names.kind
        )));
    }
    Ok(())
}

/// `Strict` refuses unknown and duplicate fields, `Warn` reports them, `Ignore` does not look.
fn report(request: &mut Request, problems: Vec<String>) -> Result<(), ApiError> {
    match request.call.write.field_validation.as_deref().unwrap_or("Warn") {
        "Ignore" => {}
        "Strict" if !problems.is_empty() => {
            let why = format!("strict decoding error: {}", problems.join(", "));
            return Err(cannot(request.kind.as_ref(), &why));
        }
        _ => request.notes.extend(problems),
    }
    Ok(())
}

/// Words a decoding failure as upstream does, if the schema can tell what was wrong.
fn refuse(kind: &dyn Kind, bytes: &[u8], err: &serde_json::Error) -> ApiError {
    let worded = kind.schema().validate_fields(bytes).type_error;
    cannot(kind, &worded.unwrap_or_else(|| format!("json: {err}")))
}
