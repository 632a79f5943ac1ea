//! resource.k8s.io/v1beta2, which has the fields of v1.

use super::ResourceSlice as Hub;

pub use k8s_openapi::api::resource::v1beta2::ResourceSlice;

like_hub!(
    ResourceSlice as Hub { spec },
    "resource.k8s.io/v1beta2 ResourceSlice is deprecated in v1.36+, unavailable in v1.39+"
);
