//! TokenRequest: asks for a token of a ServiceAccount.

#[cfg(test)]
mod tests;

use apimachinery::FieldErrors;

use crate::kind::Resource;

use apimachinery::field::Path;

pub use k8s_openapi::api::authentication::v1::TokenRequest;

const SECONDS_DEFAULT: i64 = 3600;
const SECONDS_MIN: i64 = 600;
const SECONDS_MAX: i64 = 1 << 32;

impl Resource for TokenRequest {
    codec!();

    /// Audiences default to the issuer, which the server knows.
    fn apply_defaults(&mut self) {
        self.spec.get_or_insert_default().expiration_seconds.get_or_insert(SECONDS_DEFAULT);
    }

    fn prepare_create(&mut self) {
        self.status = None;
    }

    fn validate(&self, errors: &mut FieldErrors) {
        let path = Path::new("spec").child("expirationSeconds");
        let seconds = self.spec.as_ref().and_then(|it| it.expiration_seconds);
        let seconds = seconds.unwrap_or(SECONDS_DEFAULT);
        if seconds < SECONDS_MIN {
            errors.invalid(&path, seconds, "may not specify a duration less than 10 minutes");
        } else if seconds > SECONDS_MAX {
            errors.invalid(&path, seconds, "may not specify a duration larger than 2^32 seconds");
        }
    }
}
