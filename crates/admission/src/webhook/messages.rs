//! What users are told, in upstream's words.

use apimachinery::{ApiError, Reason};
use client::hooks::Unanswered;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Status;

/// What a log says of an answer that cannot be used: whoever asked is told the rest.
pub(super) const UNUSABLE: &str = "its answer cannot be used";

/// Not this server's fault, but there is no better code: 500. `why` may have words of a webhook,
/// `logged` has none.
pub(super) fn failed(why: &str, logged: String) -> ApiError {
    internal(why).with_source(Unanswered(logged))
}

/// The same in words of ours.
pub(super) fn internal(why: &str) -> ApiError {
    ApiError::new(Reason::InternalError, format!("Internal error occurred: {why}"))
        .with_cause("", why, "")
}

pub(super) fn call_failed(hook: &str, why: &str) -> String {
    format!("failed calling webhook {hook:?}: {why}")
}

pub(super) fn no_dry_run(hook: &str) -> ApiError {
    ApiError::bad_request(format!("admission webhook {hook:?} does not support dry run"))
}

pub(super) fn nothing_to_change(hook: &str) -> ApiError {
    internal(&format!(
        "admission webhook {hook:?} attempted to modify the object, which is not supported for this operation"
    ))
}

/// What the webhook said, as a refusal whatever else it says.
pub(super) fn denied(hook: &str, said: Option<Status>) -> ApiError {
    let mut status = said.unwrap_or_default();
    if status.code.is_none_or(|it| it < 400) {
        status.code = Some(400);
    }
    if status.status.as_deref().is_none_or(|it| it.is_empty() || it == "Success") {
        status.status = Some("Failure".to_owned());
    }
    let by = format!("admission webhook {hook:?} denied the request");
    let texts = [&status.message, &status.reason];
    let why = texts.into_iter().flatten().find(|it| !it.is_empty());
    status.message = Some(match why {
        Some(why) => format!("{by}: {why}"),
        None => format!("{by} without explanation"),
    });
    ApiError::said(status)
}
