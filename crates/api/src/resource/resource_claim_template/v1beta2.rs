//! resource.k8s.io/v1beta2, which has the fields of v1.

use super::ResourceClaimTemplate as Hub;

pub use k8s_openapi::api::resource::v1beta2::ResourceClaimTemplate;

like_hub!(
    ResourceClaimTemplate as Hub { spec },
    "resource.k8s.io/v1beta2 ResourceClaimTemplate is deprecated in v1.36+, unavailable in v1.39+"
);
