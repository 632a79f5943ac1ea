//! How a command ended, as clients read it on the error stream.

use apimachinery::{ApiError, Reason};
use bytes::Bytes;
use serde_json::json;

/// How a protocol version says it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// Since v4: a `Status`, always.
    Json,
    /// Before: the problem, or nothing.
    Text,
}

impl Form {
    pub(crate) fn exited(self, code: i32) -> Bytes {
        let message = format!("command terminated with exit code {code}");
        match (self, code) {
            (Self::Json, 0) => json!({ "metadata": {}, "status": "Success" }).to_string().into(),
            (Self::Text, 0) => Bytes::new(),
            (Self::Json, _) => json!({
                "metadata": {},
                "status": "Failure",
                "message": message,
                "reason": "NonZeroExitCode",
                "details": { "causes": [{ "reason": "ExitCode", "message": code.to_string() }] },
            })
            .to_string()
            .into(),
            (Self::Text, _) => message.into(),
        }
    }

    pub(crate) fn failed(self, what: &str, err: &node_api::Error) -> Bytes {
        // Whoever runs commands in a container is told what came of it, as upstream does.
        let message = format!("Internal error occurred: {what}: {}", stdx::error_chain(err));
        let error = ApiError::new(Reason::InternalError, message);
        match self {
            Self::Json => serde_json::to_vec(&error.to_status()).unwrap_or_default().into(),
            Self::Text => Bytes::from(error.message().to_owned()),
        }
    }
}
