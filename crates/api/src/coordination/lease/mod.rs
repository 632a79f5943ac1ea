//! Lease.

use apimachinery::FieldErrors;

use crate::kind::{Facts, Resource};

pub use k8s_openapi::api::coordination::v1::Lease;

impl Resource for Lease {
    const FACTS: Facts = Facts {
        group: "coordination.k8s.io",
        kind: "Lease",
        plural: "leases",
        singular: "lease",
        registry_prefix: "leases",
        storage_version_hash: "gqkMMb/YqFM=",
        definition: "io.k8s.api.coordination.v1.Lease",
        creates_on_update: true,
        updates_unconditionally: false,
        ..Facts::DEFAULT
    };

    codec!();

    fn validate(&self, _errors: &mut FieldErrors) {}
}
