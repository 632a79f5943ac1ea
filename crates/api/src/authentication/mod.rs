//! The group authentication.k8s.io: one folder per kind.

pub mod self_subject_review;
pub mod token_request;
pub mod token_review;

pub use self_subject_review::SelfSubjectReview;
pub use token_request::TokenRequest;
pub use token_review::TokenReview;
