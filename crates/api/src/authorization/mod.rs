//! The group authorization.k8s.io: one folder per kind, one line per kind.

use std::sync::Arc;

use crate::kind::{Kind, Typed};

pub mod local_subject_access_review;
pub(crate) mod review;
pub mod self_subject_access_review;
pub mod self_subject_rules_review;
pub mod subject_access_review;

pub use local_subject_access_review::LocalSubjectAccessReview;
pub use self_subject_access_review::SelfSubjectAccessReview;
pub use self_subject_rules_review::SelfSubjectRulesReview;
pub use subject_access_review::SubjectAccessReview;

pub(crate) fn kinds() -> Vec<Arc<dyn Kind>> {
    vec![
        Arc::new(Typed::<LocalSubjectAccessReview>::new(crate::schema)),
        Arc::new(Typed::<SelfSubjectAccessReview>::new(crate::schema)),
        Arc::new(Typed::<SelfSubjectRulesReview>::new(crate::schema)),
        Arc::new(Typed::<SubjectAccessReview>::new(crate::schema)),
    ]
}
