//! resource.k8s.io/v1beta1, whose requests have another form.

use apimachinery::FieldErrors;
use k8s_openapi::api::resource::{v1, v1beta1};

use super::ResourceClaimTemplate as Hub;
use crate::kind::Resource;
use crate::resource::claims_v1beta1;
use crate::version::Version;

pub use k8s_openapi::api::resource::v1beta1::ResourceClaimTemplate;

impl Resource for ResourceClaimTemplate {
    codec!();

    fn apply_defaults(&mut self) {
        self.spec.metadata.get_or_insert_default();
        claims_v1beta1::apply_defaults(&mut self.spec.spec);
    }

    fn deprecation() -> Option<&'static str> {
        Some(
            "resource.k8s.io/v1beta1 ResourceClaimTemplate is deprecated in v1.35+, unavailable in v1.38+",
        )
    }

    fn validate(&self, errors: &mut FieldErrors) {
        let hub: Hub = self.clone().into_hub();
        hub.validate(errors);
    }
}

impl Version<Hub> for ResourceClaimTemplate {
    fn into_hub(self) -> Hub {
        let v1beta1::ResourceClaimTemplateSpec { metadata, spec } = self.spec;
        let spec = v1::ResourceClaimTemplateSpec { metadata, spec: claims_v1beta1::into_hub(spec) };
        Hub { metadata: self.metadata, spec }
    }

    fn from_hub(hub: &Hub) -> Self {
        let spec = v1beta1::ResourceClaimTemplateSpec {
            metadata: hub.spec.metadata.clone(),
            spec: claims_v1beta1::from_hub(&hub.spec.spec),
        };
        Self { metadata: hub.metadata.clone(), spec }
    }
}
