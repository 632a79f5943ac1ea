//! The group authentication.k8s.io: one folder per kind, one line per kind.

use std::sync::Arc;

use crate::kind::{Kind, Typed};

pub mod self_subject_review;
pub mod token_request;
pub mod token_review;

pub use self_subject_review::SelfSubjectReview;
pub use token_request::TokenRequest;
pub use token_review::TokenReview;

pub(crate) fn kinds() -> Vec<Arc<dyn Kind>> {
    vec![
        Arc::new(Typed::<SelfSubjectReview>::new(crate::schema)),
        Arc::new(Typed::<TokenReview>::new(crate::schema)),
    ]
}
