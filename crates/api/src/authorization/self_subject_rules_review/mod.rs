//! SelfSubjectRulesReview: what may I do in this namespace?

use apimachinery::{FieldErrors, Scope};

use crate::kind::{Facts, Resource};

pub use k8s_openapi::api::authorization::v1::SelfSubjectRulesReview;

impl Resource for SelfSubjectRulesReview {
    const FACTS: Facts = Facts {
        group: "authorization.k8s.io",
        kind: "SelfSubjectRulesReview",
        plural: "selfsubjectrulesreviews",
        singular: "selfsubjectrulesreview",
        scope: Scope::Cluster,
        verbs: &["create"],
        definition: "io.k8s.api.authorization.v1.SelfSubjectRulesReview",
        ..Facts::DEFAULT
    };

    codec!();

    fn prepare_create(&mut self) {
        self.status = None;
    }

    fn validate(&self, _errors: &mut FieldErrors) {}
}
