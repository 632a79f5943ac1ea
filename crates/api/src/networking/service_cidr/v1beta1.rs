//! ServiceCIDR as networking.k8s.io/v1beta1: the same fields.

use apimachinery::FieldErrors;
use k8s_openapi::api::networking::{v1, v1beta1};

use crate::kind::Resource;
use crate::version::Version;

pub use k8s_openapi::api::networking::v1beta1::ServiceCIDR;

impl Resource for ServiceCIDR {
    codec!();

    /// Both halves are always there.
    fn apply_defaults(&mut self) {
        self.spec.get_or_insert_default();
        self.status.get_or_insert_default();
    }

    /// The rules are those of the hub.
    fn validate(&self, _errors: &mut FieldErrors) {}
}

impl Version<v1::ServiceCIDR> for ServiceCIDR {
    fn into_hub(self) -> v1::ServiceCIDR {
        v1::ServiceCIDR {
            metadata: self.metadata,
            spec: self.spec.map(|it| v1::ServiceCIDRSpec { cidrs: it.cidrs }),
            status: self.status.map(|it| v1::ServiceCIDRStatus { conditions: it.conditions }),
        }
    }

    fn from_hub(hub: &v1::ServiceCIDR) -> Self {
        let v1::ServiceCIDR { metadata, spec, status } = hub.clone();
        Self {
            metadata,
            spec: spec.map(|it| v1beta1::ServiceCIDRSpec { cidrs: it.cidrs }),
            status: status.map(|it| v1beta1::ServiceCIDRStatus { conditions: it.conditions }),
        }
    }
}
