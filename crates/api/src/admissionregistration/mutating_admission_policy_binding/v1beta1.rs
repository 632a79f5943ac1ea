//! admissionregistration.k8s.io/v1beta1, which has the fields of v1.

use super::MutatingAdmissionPolicyBinding as Hub;

pub use k8s_openapi::api::admissionregistration::v1beta1::MutatingAdmissionPolicyBinding;

like_hub!(MutatingAdmissionPolicyBinding as Hub { spec });
