//! resource.k8s.io/v1beta2, which has the fields of v1alpha3.

use super::DeviceTaintRule as Hub;

pub use k8s_openapi::api::resource::v1beta2::DeviceTaintRule;

like_hub!(DeviceTaintRule as Hub { spec, status });
