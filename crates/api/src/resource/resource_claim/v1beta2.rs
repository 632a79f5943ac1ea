//! resource.k8s.io/v1beta2, which has the fields of v1.

use super::ResourceClaim as Hub;

pub use k8s_openapi::api::resource::v1beta2::ResourceClaim;

like_hub!(
    ResourceClaim as Hub { spec, status },
    "resource.k8s.io/v1beta2 ResourceClaim is deprecated in v1.36+, unavailable in v1.39+"
);
