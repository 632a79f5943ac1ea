//! admissionregistration.k8s.io/v1beta1, which has the fields of v1.

use super::MutatingAdmissionPolicy as Hub;

pub use k8s_openapi::api::admissionregistration::v1beta1::MutatingAdmissionPolicy;

like_hub!(MutatingAdmissionPolicy as Hub { spec });
