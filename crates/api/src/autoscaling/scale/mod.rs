//! Scale.

use apimachinery::FieldErrors;

use crate::kind::{Facts, Resource};

pub use k8s_openapi::api::autoscaling::v1::Scale;

impl Resource for Scale {
    const FACTS: Facts = Facts {
        group: "autoscaling",
        kind: "Scale",
        plural: "scales",
        singular: "scale",
        verbs: &[],
        definition: "io.k8s.api.autoscaling.v1.Scale",
        ..Facts::DEFAULT
    };

    codec!();

    fn validate(&self, _errors: &mut FieldErrors) {}
}
