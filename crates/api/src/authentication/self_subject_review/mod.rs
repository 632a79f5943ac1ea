//! SelfSubjectReview: who am I?

use apimachinery::{FieldErrors, Scope};

use crate::kind::{Facts, Resource};

pub use k8s_openapi::api::authentication::v1::SelfSubjectReview;

impl Resource for SelfSubjectReview {
    const FACTS: Facts = Facts {
        group: "authentication.k8s.io",
        kind: "SelfSubjectReview",
        plural: "selfsubjectreviews",
        singular: "selfsubjectreview",
        scope: Scope::Cluster,
        verbs: &["create"],
        definition: "io.k8s.api.authentication.v1.SelfSubjectReview",
        ..Facts::DEFAULT
    };

    codec!();

    fn prepare_create(&mut self) {
        self.status = None;
    }

    fn validate(&self, _errors: &mut FieldErrors) {}
}
