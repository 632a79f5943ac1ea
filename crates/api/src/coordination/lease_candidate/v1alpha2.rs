//! LeaseCandidate as coordination.k8s.io/v1alpha2: the same fields.

use apimachinery::FieldErrors;
use k8s_openapi::api::coordination::{v1alpha2, v1beta1};

use crate::kind::Resource;
use crate::version::Version;

pub use k8s_openapi::api::coordination::v1alpha2::LeaseCandidate;

impl Resource for LeaseCandidate {
    codec!();

    /// The rules are those of the hub.
    fn validate(&self, _errors: &mut FieldErrors) {}
}

impl Version<v1beta1::LeaseCandidate> for LeaseCandidate {
    fn into_hub(self) -> v1beta1::LeaseCandidate {
        let spec = v1beta1::LeaseCandidateSpec {
            binary_version: self.spec.binary_version,
            emulation_version: self.spec.emulation_version,
            lease_name: self.spec.lease_name,
            ping_time: self.spec.ping_time,
            renew_time: self.spec.renew_time,
            strategy: self.spec.strategy,
        };
        v1beta1::LeaseCandidate { metadata: self.metadata, spec }
    }

    fn from_hub(hub: &v1beta1::LeaseCandidate) -> Self {
        let hub = hub.clone();
        let spec = v1alpha2::LeaseCandidateSpec {
            binary_version: hub.spec.binary_version,
            emulation_version: hub.spec.emulation_version,
            lease_name: hub.spec.lease_name,
            ping_time: hub.spec.ping_time,
            renew_time: hub.spec.renew_time,
            strategy: hub.spec.strategy,
        };
        Self { metadata: hub.metadata, spec }
    }
}
