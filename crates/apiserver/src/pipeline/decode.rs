//! From a body to an object of the kind, with defaults filled in, and with what the client wrote wrong reported as it
//! asked for.

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

/// The object that the client sent, defaults applied.
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
    Ok(object)
}

fn from_json(request: &mut Request, bytes: &Bytes) -> Result<Box<dyn ApiObject>, ApiError> {
    let kind = request.kind.clone();
    check_header(kind.as_ref(), bytes)?;
    let policy = request.call.write.field_validation.as_deref().unwrap_or("Warn");
    check_fields(kind.as_ref(), bytes, policy, &mut request.notes)?;
    kind.decode(bytes).map_err(|err| refuse(kind.as_ref(), bytes, &err))
}

fn cannot(kind: &dyn Kind, why: &str) -> ApiError {
    let names = kind.names();
    ApiError::bad_request(format!(
        "{} in version {:?} cannot be handled as a {}: {why}",
        names.kind, names.version, names.kind
    ))
}

/// Missing apiVersion and kind are the ones of the path.
fn check_header(kind: &dyn Kind, bytes: &[u8]) -> Result<(), ApiError> {
    let names = kind.names();
    let header: Header<'_> = serde_json::from_slice(bytes)
        .map_err(|err| cannot(kind, &format!("json parse error: {err}")))?;
    let (wanted, found) = (names.api_version(), header.api_version);
    if !found.is_empty() && found != wanted {
        return Err(ApiError::bad_request(format!(
            "the API version in the data ({found}) does not match the expected API version ({wanted})"
        )));
    }
    if !header.kind.is_empty() && header.kind != names.kind {
        return Err(ApiError::bad_request(format!(
            "{} in version {:?} cannot be handled as a {}: no kind {:?} is expected here",
            header.kind, names.version, names.kind, header.kind
        )));
    }
    Ok(())
}

/// `Strict` refuses unknown and duplicate fields, `Warn` reports them, `Ignore` does not look.
pub(super) fn check_fields(
    kind: &dyn Kind,
    bytes: &[u8],
    policy: &str,
    warnings: &mut impl Extend<String>,
) -> Result<(), ApiError> {
    if policy == "Ignore" {
        return Ok(());
    }
    let report = kind.schema().check_fields(bytes);
    // Values of custom resources are judged by their schema, with every problem at once: see `Kind::validate`.
    if let Some(error) = report.type_error.filter(|_| !kind.is_custom()) {
        return Err(cannot(kind, &error));
    }
    if policy == "Strict" && !report.problems.is_empty() {
        return Err(cannot(
            kind,
            &format!("strict decoding error: {}", report.problems.join(", ")),
        ));
    }
    warnings.extend(report.problems);
    Ok(())
}

/// Words a decoding failure as upstream does, if the schema can tell what was wrong.
pub(super) fn refuse(kind: &dyn Kind, bytes: &[u8], err: &serde_json::Error) -> ApiError {
    let worded = kind.schema().check_fields(bytes).type_error;
    cannot(kind, &worded.unwrap_or_else(|| format!("json: {err}")))
}
