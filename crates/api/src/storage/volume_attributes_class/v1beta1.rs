//! storage.k8s.io/v1beta1, which has the same fields. It is served where somebody asks for it.

use apimachinery::FieldErrors;
use k8s_openapi::api::storage::v1;

use crate::kind::Resource;
use crate::version::Version;

pub use k8s_openapi::api::storage::v1beta1::VolumeAttributesClass;

impl Resource for VolumeAttributesClass {
    codec!();

    fn validate(&self, errors: &mut FieldErrors) {
        let hub: v1::VolumeAttributesClass = self.clone().into_hub();
        hub.validate(errors);
    }

    fn deprecation() -> Option<&'static str> {
        Some(
            "storage.k8s.io/v1beta1 VolumeAttributesClass is deprecated in v1.34+, unavailable in v1.37+; \
             use storage.k8s.io/v1 VolumeAttributesClass",
        )
    }
}

impl Version<v1::VolumeAttributesClass> for VolumeAttributesClass {
    fn into_hub(self) -> v1::VolumeAttributesClass {
        let Self { driver_name, metadata, parameters } = self;
        v1::VolumeAttributesClass { driver_name, metadata, parameters }
    }

    fn from_hub(hub: &v1::VolumeAttributesClass) -> Self {
        Self {
            driver_name: hub.driver_name.clone(),
            metadata: hub.metadata.clone(),
            parameters: hub.parameters.clone(),
        }
    }
}
