//! resource.k8s.io/v1beta1, which has the fields of v1.

use super::DeviceClass as Hub;

pub use k8s_openapi::api::resource::v1beta1::DeviceClass;

like_hub!(
    DeviceClass as Hub { spec },
    "resource.k8s.io/v1beta1 DeviceClass is deprecated in v1.35+, unavailable in v1.38+"
);
