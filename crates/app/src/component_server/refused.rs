//! Why somebody is not answered.

use apimachinery::ApiError;
use http::StatusCode;

#[derive(Debug, thiserror::Error)]
pub(super) enum Refused {
    #[error("Unauthorized")]
    Unauthorized,
    #[error("Forbidden: \"{path}\" for user {user:?}")]
    Forbidden { user: String, path: String },
    #[error("asking the API server: {0}")]
    NoAnswer(ApiError),
}

impl Refused {
    pub(super) fn status(&self) -> StatusCode {
        match self {
            Self::Unauthorized => StatusCode::UNAUTHORIZED,
            Self::Forbidden { .. } => StatusCode::FORBIDDEN,
            Self::NoAnswer(_) => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }
}
