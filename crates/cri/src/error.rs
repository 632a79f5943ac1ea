//! From what a call came to, to what a kubelet tells apart: the one place.

use grpc::channel::{CallError, ConnectError};
use grpc::{Code, Status};
use node_api::Error;

#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    #[error("the container runtime cannot be reached")]
    Connect(#[from] ConnectError),
    #[error(transparent)]
    Call(#[from] CallError),
    #[error("the container runtime did not answer within {0:?}")]
    Late(std::time::Duration),
}

impl Failure {
    /// What the runtime said, if it said something.
    pub(crate) fn status(&self) -> Option<&Status> {
        match self {
            Self::Call(CallError::Status(status)) => Some(status),
            Self::Connect(_) | Self::Call(_) | Self::Late(_) => None,
        }
    }

    pub(crate) fn is(&self, code: Code) -> bool {
        self.status().is_some_and(|it| it.code == code)
    }

    /// A runtime that has just started does not have its CRI part yet: its socket answers for
    /// nobody.
    pub(crate) fn is_starting(&self) -> bool {
        let Some(status) = self.status() else { return false };
        let is_unknown = status.code == Code::Unimplemented
            && status.message.starts_with("unknown service runtime.v1.");
        is_unknown || status.message.contains("server is not initialized yet")
    }

    /// For calls whose failure is what was asked for: a refusal in the runtime's words.
    pub(crate) fn into_error(self, doing: &str) -> Error {
        match self.status() {
            Some(Status { code: Code::Unimplemented, .. }) => Error::unsupported(doing),
            Some(Status { code: Code::Unavailable, .. }) | None => self.into_node(doing),
            Some(status) => Error::Refused(status.message.clone()),
        }
    }

    pub(crate) fn into_node(self, doing: &str) -> Error {
        Error::node(doing, self)
    }
}
