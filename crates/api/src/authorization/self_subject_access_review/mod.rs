//! SelfSubjectAccessReview: may I do this?

#[cfg(test)]
mod tests;

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
        let resource = self.spec.resource_attributes.as_ref();
        let path = self.spec.non_resource_attributes.as_ref();
        review::validate_attributes(resource, path, errors);
        review::validate_selectors(resource, errors);
        review::validate_metadata(&self.metadata, review::MUST_BE_EMPTY, errors);
    }
}
