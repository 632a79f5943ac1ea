//! TokenReview: whose token is this?

use apimachinery::FieldErrors;

use crate::kind::Resource;

use apimachinery::field::Path;

pub use k8s_openapi::api::authentication::v1::TokenReview;

impl Resource for TokenReview {
    codec!();

    fn prepare_create(&mut self) {
        self.status = None;
    }

    fn validate(&self, errors: &mut FieldErrors) {
        if self.spec.token.is_empty() {
            errors.required(&Path::new("spec").child("token"), "");
        }
    }
}
