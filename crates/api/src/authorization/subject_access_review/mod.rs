//! SubjectAccessReview: may somebody do this?

#[cfg(test)]
mod tests;

use apimachinery::{FieldErrors, Scope};

use crate::kind::{Facts, Resource};

use super::review;

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

    fn prepare_create(&mut self) {
        self.status = None;
    }

    fn validate(&self, errors: &mut FieldErrors) {
        review::check_spec(&self.spec, errors);
        review::check_metadata(&self.metadata, "must be empty", errors);
    }
}
