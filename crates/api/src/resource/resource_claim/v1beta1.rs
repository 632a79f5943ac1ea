//! resource.k8s.io/v1beta1, whose requests have another form.

use apimachinery::FieldErrors;

use super::ResourceClaim as Hub;
use crate::kind::Resource;
use crate::resource::claims_v1beta1;
use crate::version::{Version, same_fields};

pub use k8s_openapi::api::resource::v1beta1::ResourceClaim;

impl Resource for ResourceClaim {
    codec!();

    fn apply_defaults(&mut self) {
        claims_v1beta1::apply_defaults(&mut self.spec);
    }

    fn deprecation() -> Option<&'static str> {
        Some("resource.k8s.io/v1beta1 ResourceClaim is deprecated in v1.35+, unavailable in v1.38+")
    }

    fn validate(&self, errors: &mut FieldErrors) {
        let hub: Hub = self.clone().into_hub();
        hub.validate(errors);
    }
}

impl Version<Hub> for ResourceClaim {
    fn into_hub(self) -> Hub {
        Hub {
            metadata: self.metadata,
            spec: claims_v1beta1::into_hub(self.spec),
            status: same_fields(&self.status),
        }
    }

    fn from_hub(hub: &Hub) -> Self {
        Self {
            metadata: hub.metadata.clone(),
            spec: claims_v1beta1::from_hub(&hub.spec),
            status: same_fields(&hub.status),
        }
    }
}
