//! SelfSubjectReview: who am I?

#[cfg(test)]
mod tests;

use apimachinery::FieldErrors;

use crate::kind::Resource;

pub use k8s_openapi::api::authentication::v1::SelfSubjectReview;

impl Resource for SelfSubjectReview {
    codec!();

    fn prepare_create(&mut self) {
        self.status = None;
    }

    fn validate(&self, _errors: &mut FieldErrors) {}
}
