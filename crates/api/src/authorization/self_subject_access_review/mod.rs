//! SelfSubjectAccessReview.

use apimachinery::{FieldErrors, Scope};

use crate::kind::{Facts, Resource};

pub use k8s_openapi::api::authorization::v1::SelfSubjectAccessReview;

impl Resource for SelfSubjectAccessReview {
    const FACTS: Facts = Facts {
        group: "authorization.k8s.io",
        kind: "SelfSubjectAccessReview",
        plural: "selfsubjectaccessreviews",
        singular: "selfsubjectaccessreview",
        scope: Scope::Cluster,
        verbs: &["create"],
        definition: "io.k8s.api.authorization.v1.SelfSubjectAccessReview",
        ..Facts::DEFAULT
    };

    codec!();

    fn validate(&self, _errors: &mut FieldErrors) {}
}
