//! IPAddress as networking.k8s.io/v1beta1: the same fields.

use apimachinery::FieldErrors;
use k8s_openapi::api::networking::{v1, v1beta1};

use crate::kind::Resource;
use crate::version::Version;

pub use k8s_openapi::api::networking::v1beta1::IPAddress;

impl Resource for IPAddress {
    codec!();

    /// The rules are those of the hub.
    fn validate(&self, _errors: &mut FieldErrors) {}
}

impl Version<v1::IPAddress> for IPAddress {
    fn into_hub(self) -> v1::IPAddress {
        let v1beta1::ParentReference { group, name, namespace, resource } = self.spec.parent_ref;
        let parent_ref = v1::ParentReference { group, name, namespace, resource };
        v1::IPAddress { metadata: self.metadata, spec: v1::IPAddressSpec { parent_ref } }
    }

    fn from_hub(hub: &v1::IPAddress) -> Self {
        let parent = hub.spec.parent_ref.clone();
        let v1::ParentReference { group, name, namespace, resource } = parent;
        let parent_ref = v1beta1::ParentReference { group, name, namespace, resource };
        Self { metadata: hub.metadata.clone(), spec: v1beta1::IPAddressSpec { parent_ref } }
    }
}
