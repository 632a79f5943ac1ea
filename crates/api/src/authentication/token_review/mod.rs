//! TokenReview.

use apimachinery::{FieldErrors, Scope};

use crate::kind::{Facts, Resource};

pub use k8s_openapi::api::authentication::v1::TokenReview;

impl Resource for TokenReview {
    const FACTS: Facts = Facts {
        group: "authentication.k8s.io",
        kind: "TokenReview",
        plural: "tokenreviews",
        singular: "tokenreview",
        scope: Scope::Cluster,
        verbs: &["create"],
        definition: "io.k8s.api.authentication.v1.TokenReview",
        ..Facts::DEFAULT
    };

    codec!();

    fn validate(&self, _errors: &mut FieldErrors) {}
}
