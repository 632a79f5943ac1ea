//! ClusterTrustBundle as certificates.k8s.io/v1alpha1: the same fields.

use apimachinery::FieldErrors;
use k8s_openapi::api::certificates::{v1alpha1, v1beta1};

use super::FIELDS;
use crate::kind::Resource;
use crate::version::Version;

pub use k8s_openapi::api::certificates::v1alpha1::ClusterTrustBundle;

impl Resource for ClusterTrustBundle {
    codec!();

    /// The rules are those of the hub.
    fn validate(&self, _errors: &mut FieldErrors) {}

    fn field_names() -> &'static [(&'static str, &'static str)] {
        FIELDS
    }
}

impl Version<v1beta1::ClusterTrustBundle> for ClusterTrustBundle {
    fn into_hub(self) -> v1beta1::ClusterTrustBundle {
        let v1alpha1::ClusterTrustBundleSpec { signer_name, trust_bundle } = self.spec;
        let spec = v1beta1::ClusterTrustBundleSpec { signer_name, trust_bundle };
        v1beta1::ClusterTrustBundle { metadata: self.metadata, spec }
    }

    fn from_hub(hub: &v1beta1::ClusterTrustBundle) -> Self {
        let v1beta1::ClusterTrustBundleSpec { signer_name, trust_bundle } = hub.spec.clone();
        let spec = v1alpha1::ClusterTrustBundleSpec { signer_name, trust_bundle };
        Self { metadata: hub.metadata.clone(), spec }
    }
}
