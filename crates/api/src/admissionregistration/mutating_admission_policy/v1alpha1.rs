//! admissionregistration.k8s.io/v1alpha1, which has the fields of v1.

use super::MutatingAdmissionPolicy as Hub;

pub use k8s_openapi::api::admissionregistration::v1alpha1::MutatingAdmissionPolicy;

like_hub!(
    MutatingAdmissionPolicy as Hub { spec },
    "admissionregistration.k8s.io/v1alpha1 MutatingAdmissionPolicy is deprecated in v1.35+, unavailable in v1.38+"
);
