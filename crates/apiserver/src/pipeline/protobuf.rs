//! Bodies in protobuf become JSON as soon as the kind is known: only then is it known what their
//! bytes mean.

use api::protobuf::{self, Envelope};
use apimachinery::{ApiError, GroupVersionKind};
use bytes::Bytes;

use super::{Body, Request, decode};

pub(super) fn body_to_json(request: &mut Request) -> Result<(), ApiError> {
    let Body::Protobuf(bytes) = &request.call.body else { return Ok(()) };
    let wanted = request.kind_of_body();
    let message = protobuf::message_of(&wanted)
        .ok_or_else(|| super::unsupported("application/json, application/yaml"))?;
    let json = to_json(bytes, &wanted, message)?;
    request.call.body = Body::Json(json.into());
    // Fields that the server does not know are lost in protobuf: there is nothing to report.
    request.call.write.field_validation = Some("Ignore".to_owned());
    Ok(())
}

fn to_json(
    bytes: &Bytes,
    wanted: &GroupVersionKind,
    message: protobuf::Message,
) -> Result<Vec<u8>, ApiError> {
    let cannot = |err: protobuf::Error| {
        ApiError::bad_request(format!(
            "{} in version {:?} cannot be handled as a {}: {err}",
            wanted.kind, wanted.version, wanted.kind
        ))
    };
    let envelope = Envelope::parse(bytes).map_err(|err| match err {
        protobuf::Error::Magic => {
            let why = "provided data does not appear to be a protobuf message, expected prefix \
                       [107 56 115 0]";
            decode::unrecognized(&wanted.kind, why, bytes)
        }
        err => cannot(err),
    })?;
    let (version, kind) = (wanted.api_version(), wanted.kind.as_str());
    let is_right = |found: &str, wanted: &str| found.is_empty() || found == wanted;
    if !is_right(envelope.api_version, &version) || !is_right(envelope.kind, kind) {
        let what = format!(
            "{} in version {:?} cannot be handled as a {kind}",
            envelope.kind,
            envelope.api_version.rsplit('/').next().unwrap_or_default()
        );
        return Err(ApiError::bad_request(match is_right(envelope.kind, kind) {
            true => format!(
                "the API version in the data ({}) does not match the expected API version ({version})",
                envelope.api_version
            ),
            false => format!("{what}: no kind {:?} is expected here", envelope.kind),
        }));
    }
    let envelope = Envelope { api_version: &version, kind, ..envelope };
    envelope.to_json(message).map_err(cannot)
}
