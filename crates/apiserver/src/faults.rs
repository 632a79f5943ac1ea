//! Errors that are ours. The log is told everything, with the chain of causes; a client the text
//! alone, and the audit id under which the log has the rest.

use std::error::Error as _;

use apimachinery::{ApiError, Reason};
use client::hooks::Unanswered;
use telemetry::logs::AuditId;

/// Logs an error that its client is not told everything about.
pub(crate) fn log(error: &ApiError) {
    match error.source() {
        // What somebody else answered is not for the log.
        Some(source) if source.is::<Unanswered>() => {
            tracing::error!(error = %source, "a request failed");
        }
        Some(source) => {
            let what = error.message();
            tracing::error!(what, error = %stdx::error_chain(source), "a request failed");
        }
        None if error.reason() == Reason::InternalError => {
            tracing::error!(error = error.message(), "a request failed");
        }
        None => {}
    }
}

/// The same, and what the client is told instead. The line that is written has the id of the
/// present request.
pub(crate) fn tell(error: ApiError, id: &AuditId) -> ApiError {
    log(&error);
    let is_ours = error.source().is_some() || error.reason() == Reason::InternalError;
    if is_ours { error.with_audit_id(&id.to_string()) } else { error }
}
