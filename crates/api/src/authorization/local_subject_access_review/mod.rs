//! LocalSubjectAccessReview.

use apimachinery::FieldErrors;

use crate::kind::{Facts, Resource};

pub use k8s_openapi::api::authorization::v1::LocalSubjectAccessReview;

impl Resource for LocalSubjectAccessReview {
    const FACTS: Facts = Facts {
        group: "authorization.k8s.io",
        kind: "LocalSubjectAccessReview",
        plural: "localsubjectaccessreviews",
        singular: "localsubjectaccessreview",
        verbs: &["create"],
        definition: "io.k8s.api.authorization.v1.LocalSubjectAccessReview",
        ..Facts::DEFAULT
    };

    codec!();

    fn validate(&self, _errors: &mut FieldErrors) {}
}
