//! resource.k8s.io/v1beta2, which has the fields of v1.

use super::DeviceClass as Hub;

pub use k8s_openapi::api::resource::v1beta2::DeviceClass;

like_hub!(
    DeviceClass as Hub { spec },
    "resource.k8s.io/v1beta2 DeviceClass is deprecated in v1.36+, unavailable in v1.39+"
);
