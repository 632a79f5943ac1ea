//! SelfSubjectAccessReview: may I do this?

use apimachinery::FieldErrors;

use crate::kind::Resource;

use super::review;

pub use k8s_openapi::api::authorization::v1::SelfSubjectAccessReview;

impl Resource for SelfSubjectAccessReview {
    codec!();

    fn prepare_create(&mut self) {
        self.status = None;
    }

    fn validate(&self, errors: &mut FieldErrors) {
        review::validate_attributes(
            self.spec.resource_attributes.as_ref(),
            self.spec.non_resource_attributes.as_ref(),
            errors,
        );
        review::validate_metadata(&self.metadata, "must be empty", errors);
    }
}
