//! EndpointSlice.

use apimachinery::FieldErrors;

use crate::kind::{Facts, Resource};

pub use k8s_openapi::api::discovery::v1::EndpointSlice;

impl Resource for EndpointSlice {
    const FACTS: Facts = Facts {
        group: "discovery.k8s.io",
        kind: "EndpointSlice",
        plural: "endpointslices",
        singular: "endpointslice",
        registry_prefix: "endpointslices",
        storage_version_hash: "qgS0xkrxYAI=",
        definition: "io.k8s.api.discovery.v1.EndpointSlice",
        has_generation: true,
        ..Facts::DEFAULT
    };

    codec!();

    fn validate(&self, _errors: &mut FieldErrors) {}
}
