//! Bodies of requests: read within bounds of size, then taken for what their content type says.
//! Their time is that of the request as a whole.

use std::sync::Arc;

use api::protobuf::{self, Envelope};
use apimachinery::{ApiError, Reason};
use bytes::Bytes;
use client::{PatchKind, Verb};
use http::{HeaderMap, header};
use http_body::Body as _;
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use hyper::body::Incoming;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::StatusDetails;

use super::offered::Offered;
use super::query::{Query, Waits};
use crate::pipeline::{Body, Core, PATCHES_OF_CUSTOM, Read, Unread, unsupported};
use crate::yaml;

const BYTES_MAX: usize = 3 * 1024 * 1024;

/// The body of a request, to be read once its sender may send it.
pub(super) fn unread(
    core: &Arc<Core>,
    (verb, is_custom): (Verb, bool),
    headers: &HeaderMap,
    query: Query,
    body: Offered,
) -> Unread {
    if matches!(verb, Verb::Get | Verb::List | Verb::Watch | Verb::Options) {
        return Unread::there(Body::Empty);
    }
    let kind = headers.get(header::CONTENT_TYPE).and_then(|it| it.to_str().ok());
    let kind = kind.unwrap_or("application/json").split(';').next().unwrap_or_default();
    let (core, kind) = (core.clone(), kind.trim().to_owned());
    Unread::new(async move {
        let bytes = match body.take() {
            Some(body) => read(body).await?,
            None => Bytes::new(),
        };
        core.heavy.run(bytes.len(), || parse((verb, is_custom), &kind, &query, bytes)).await
    })
}

async fn read(body: Incoming) -> Result<Bytes, ApiError> {
    let too_large = || {
        ApiError::new(
            Reason::RequestEntityTooLarge,
            format!("Request entity too large: limit is {BYTES_MAX}"),
        )
    };
    // Said before it is sent: not a byte of it is wanted.
    if body.size_hint().lower() > BYTES_MAX as u64 {
        return Err(too_large());
    }
    match Limited::new(body, BYTES_MAX).collect().await {
        Ok(body) => Ok(body.to_bytes()),
        Err(err) if err.is::<LengthLimitError>() => Err(too_large()),
        Err(err) => Err(ApiError::bad_request(format!("the body could not be read: {err}"))),
    }
}

fn parse(
    (verb, is_custom): (Verb, bool),
    kind: &str,
    query: &Query,
    bytes: Bytes,
) -> Result<Read, ApiError> {
    let mut waits = Waits::default();
    let mut problems = Vec::new();
    let body = match verb {
        Verb::Get | Verb::List | Verb::Watch | Verb::Options => Body::Empty,
        Verb::Delete | Verb::DeleteCollection => {
            let bytes = match kind {
                _ if bytes.is_empty() => bytes,
                protobuf::MEDIA_TYPE => options_to_json(&bytes)?,
                _ => to_json(kind, bytes)?,
            };
            let (options, asked) = query.delete_options(&bytes)?;
            waits = asked;
            Body::Delete(options)
        }
        Verb::Patch => {
            let forms = [PatchKind::Json, PatchKind::Merge, PatchKind::Strategic, PatchKind::Apply];
            let form = forms.into_iter().find(|it| it.content_type() == kind);
            form.map(|it| Body::Patch(it, bytes)).ok_or_else(|| match is_custom {
                true => unsupported(PATCHES_OF_CUSTOM),
                false => ApiError::new(Reason::UnsupportedMediaType, "415: Unsupported Media Type")
                    .with_details(StatusDetails::default()),
            })?
        }
        Verb::Create | Verb::Update if kind == protobuf::MEDIA_TYPE => Body::Protobuf(bytes),
        Verb::Create | Verb::Update => {
            if kind == "application/yaml" {
                problems.extend(yaml::duplicate(&bytes));
            }
            Body::Json(to_json(kind, bytes)?)
        }
    };
    Ok(Read { body, waits: waits.0, problems })
}

/// DeleteOptions belong to every group: only the kind is looked at.
fn options_to_json(bytes: &[u8]) -> Result<Bytes, ApiError> {
    let cannot = |why: &dyn std::fmt::Display| {
        ApiError::bad_request(format!("DeleteOptions cannot be decoded: {why}"))
    };
    let envelope = Envelope::parse(bytes).map_err(|err| cannot(&err))?;
    if !matches!(envelope.kind, "" | "DeleteOptions") {
        return Err(cannot(&format_args!("no kind {:?} is expected here", envelope.kind)));
    }
    let message = protobuf::message(protobuf::DELETE_OPTIONS).expect("the table has DeleteOptions");
    Ok(envelope.to_json(message).map_err(|err| cannot(&err))?.into())
}

fn to_json(kind: &str, bytes: Bytes) -> Result<Bytes, ApiError> {
    match kind {
        "application/json" | "" => Ok(bytes),
        "application/yaml" => {
            let value = yaml::parse(&bytes).map_err(|why| {
                ApiError::bad_request(format!("error converting YAML to JSON: {why}"))
            })?;
            Ok(value.to_string().into())
        }
        _ => Err(unsupported(
            "application/json, application/yaml, application/vnd.kubernetes.protobuf",
        )),
    }
}
