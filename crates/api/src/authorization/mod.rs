//! The group authorization.k8s.io: one folder per kind.

pub mod local_subject_access_review;
pub(crate) mod review;
pub mod self_subject_access_review;
pub mod self_subject_rules_review;
pub mod subject_access_review;

pub use local_subject_access_review::LocalSubjectAccessReview;
pub use self_subject_access_review::SelfSubjectAccessReview;
pub use self_subject_rules_review::SelfSubjectRulesReview;
pub use subject_access_review::SubjectAccessReview;
