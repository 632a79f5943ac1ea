//! SelfSubjectRulesReview: what may I do in this namespace?

#[cfg(test)]
mod tests;

use apimachinery::FieldErrors;

use crate::kind::Resource;

pub use k8s_openapi::api::authorization::v1::SelfSubjectRulesReview;

impl Resource for SelfSubjectRulesReview {
    codec!();

    fn prepare_create(&mut self) {
        self.status = None;
    }

    fn validate(&self, _errors: &mut FieldErrors) {}
}
