//! TokenReview: whose token is this?

#[cfg(test)]
mod tests;

use apimachinery::FieldErrors;

use crate::kind::Resource;

pub use k8s_openapi::api::authentication::v1::TokenReview;

impl Resource for TokenReview {
    codec!();

    fn prepare_create(&mut self) {
        self.status = None;
    }

    /// One without a token is no question, which the server says.
    fn validate(&self, _errors: &mut FieldErrors) {}
}
