//! TokenRequest.

use apimachinery::FieldErrors;

use crate::kind::{Facts, Resource};

pub use k8s_openapi::api::authentication::v1::TokenRequest;

impl Resource for TokenRequest {
    const FACTS: Facts = Facts {
        group: "authentication.k8s.io",
        kind: "TokenRequest",
        plural: "tokenrequests",
        singular: "tokenrequest",
        verbs: &[],
        definition: "io.k8s.api.authentication.v1.TokenRequest",
        ..Facts::DEFAULT
    };

    codec!();

    fn validate(&self, _errors: &mut FieldErrors) {}
}
