//! TokenReview: whose token is this?

use apimachinery::{FieldErrors, Scope};

use crate::kind::{Facts, Resource};

use apimachinery::field::Path;

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

    fn prepare_create(&mut self) {
        self.status = None;
    }

    fn validate(&self, errors: &mut FieldErrors) {
        if self.spec.token.is_empty() {
            errors.required(&Path::new("spec").child("token"), "");
        }
    }
}
