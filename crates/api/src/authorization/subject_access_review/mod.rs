//! SubjectAccessReview: may somebody do this?

#[cfg(test)]
mod tests;

use apimachinery::FieldErrors;

use crate::kind::Resource;

use super::review;

pub use k8s_openapi::api::authorization::v1::SubjectAccessReview;

impl Resource for SubjectAccessReview {
    codec!();

    fn prepare_create(&mut self) {
        self.status = None;
    }

    fn validate(&self, errors: &mut FieldErrors) {
        review::validate_spec(&self.spec, errors);
        review::validate_metadata(&self.metadata, review::MUST_BE_EMPTY, errors);
    }
}
