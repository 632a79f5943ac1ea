//! Eviction: asks to delete a pod, if its disruption budget allows.

#[cfg(test)]
mod tests;

use apimachinery::FieldErrors;

use crate::kind::Resource;

pub use k8s_openapi::api::policy::v1::Eviction;

impl Resource for Eviction {
    codec!();

    /// What is asked for is in `deleteOptions`, which the server checks as for any DELETE.
    fn validate(&self, _errors: &mut FieldErrors) {}
}
