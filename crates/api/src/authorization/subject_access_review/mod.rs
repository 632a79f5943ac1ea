//! SubjectAccessReview.

use apimachinery::{FieldErrors, Scope};

use crate::kind::{Facts, Resource};

pub use k8s_openapi::api::authorization::v1::SubjectAccessReview;

impl Resource for SubjectAccessReview {
    const FACTS: Facts = Facts {
        group: "authorization.k8s.io",
        kind: "SubjectAccessReview",
        plural: "subjectaccessreviews",
        singular: "subjectaccessreview",
        scope: Scope::Cluster,
        verbs: &["create"],
        definition: "io.k8s.api.authorization.v1.SubjectAccessReview",
        ..Facts::DEFAULT
    };

    codec!();

    fn validate(&self, _errors: &mut FieldErrors) {}
}
