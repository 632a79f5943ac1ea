//! admissionregistration.k8s.io/v1alpha1, which has the fields of v1, and one default more.

use apimachinery::FieldErrors;

use super::MutatingAdmissionPolicyBinding as Hub;
use crate::kind::Resource;
use crate::version::{Version, same_fields};

pub use k8s_openapi::api::admissionregistration::v1alpha1::MutatingAdmissionPolicyBinding;

impl Resource for MutatingAdmissionPolicyBinding {
    codec!();

    fn apply_defaults(&mut self) {
        let mut hub: Hub = self.clone().into_hub();
        hub.apply_defaults();
        if let Some(reference) = hub.spec.as_mut().and_then(|it| it.param_ref.as_mut()) {
            reference.parameter_not_found_action.get_or_insert_with(|| "Deny".to_owned());
        }
        *self = Self::from_hub(&hub);
    }

    fn deprecation() -> Option<&'static str> {
        Some(
            "admissionregistration.k8s.io/v1alpha1 MutatingAdmissionPolicyBinding is deprecated in v1.35+, unavailable in v1.38+",
        )
    }

    fn validate(&self, errors: &mut FieldErrors) {
        let hub: Hub = self.clone().into_hub();
        hub.validate(errors);
    }
}

impl Version<Hub> for MutatingAdmissionPolicyBinding {
    fn into_hub(self) -> Hub {
        Hub { metadata: self.metadata, spec: same_fields(&self.spec) }
    }

    fn from_hub(hub: &Hub) -> Self {
        Self { metadata: hub.metadata.clone(), spec: same_fields(&hub.spec) }
    }
}
