//! Why a request to a registry failed, in the words that users of Go's programs know.

use std::io;

use http::StatusCode;

#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    #[error("dial tcp: lookup {host}: {problem}")]
    Lookup { host: String, problem: String },
    #[error("dial tcp {address}: connect: {problem}")]
    Dial { address: String, problem: String },
    /// It closed the connection or sent what is no TLS.
    #[error("http: server gave HTTP response to HTTPS client")]
    NotTls,
    #[error("tls: {0}")]
    Tls(String),
    #[error("{0}")]
    Exchange(String),
    #[error("i/o timeout: the server sent nothing for {0:?}")]
    Idle(std::time::Duration),
    #[error("unexpected status from GET request: {status}{message}")]
    Status { status: StatusCode, message: String },
    #[error("unauthorized: {0}")]
    Unauthorized(String),
    #[error("stopped after {0} redirects")]
    TooManyRedirects(usize),
    #[error("redirected to {0:?}, which is refused")]
    Redirect(String),
    #[error("the answer has more than {0} bytes")]
    TooLarge(u64),
    #[error("unexpected EOF: {received} of {expected} bytes were sent")]
    Truncated { received: u64, expected: u64 },
    #[error("the server cannot go on at byte {0}")]
    NoResume(u64),
    #[error("{0}")]
    Malformed(String),
    /// Whoever wanted the bytes has failed and says why itself.
    #[error("nobody wants the rest")]
    Unwanted,
}

impl Failure {
    /// Another try may go better.
    pub(super) fn is_passing(&self) -> bool {
        match self {
            Self::Lookup { .. }
            | Self::Dial { .. }
            | Self::Exchange(_)
            | Self::Idle(_)
            | Self::Truncated { .. } => true,
            Self::Status { status, .. } => {
                status.is_server_error()
                    || [StatusCode::TOO_MANY_REQUESTS, StatusCode::REQUEST_TIMEOUT].contains(status)
            }
            _ => false,
        }
    }

    pub(crate) fn is_not_found(&self) -> bool {
        matches!(self, Self::Status { status, .. } if *status == StatusCode::NOT_FOUND)
    }

    /// What the registry said, if it wants to know better who asks.
    pub(crate) fn denied(&self) -> Option<String> {
        match self {
            Self::Unauthorized(message) => Some(message.clone()),
            Self::Status { status, message }
                if [StatusCode::UNAUTHORIZED, StatusCode::FORBIDDEN].contains(status) =>
            {
                Some(format!("{status}{message}"))
            }
            _ => None,
        }
    }

    pub(super) fn dial(address: impl ToString, err: &io::Error) -> Self {
        let problem = match err.kind() {
            io::ErrorKind::ConnectionRefused => "connection refused".to_owned(),
            io::ErrorKind::ConnectionReset => "connection reset by peer".to_owned(),
            io::ErrorKind::HostUnreachable => "no route to host".to_owned(),
            io::ErrorKind::NetworkUnreachable => "network is unreachable".to_owned(),
            io::ErrorKind::TimedOut => "i/o timeout".to_owned(),
            _ => err.to_string(),
        };
        Self::Dial { address: address.to_string(), problem }
    }
}
