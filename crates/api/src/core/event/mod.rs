//! Event.

use apimachinery::FieldErrors;

use crate::kind::{Facts, Resource};

pub use k8s_openapi::api::core::v1::Event;

impl Resource for Event {
    const FACTS: Facts = Facts {
        kind: "Event",
        plural: "events",
        singular: "event",
        short_names: &["ev"],
        registry_prefix: "events",
        storage_version_hash: "r2yiGXH7wu8=",
        definition: "io.k8s.api.core.v1.Event",
        creates_on_update: true,
        ..Facts::DEFAULT
    };

    codec!();

    fn validate(&self, _errors: &mut FieldErrors) {}
}
