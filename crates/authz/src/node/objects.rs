//! Which objects belong to a node: its pods, and what they refer to; the devices that are on it.

use std::sync::Arc;

use api::certificates::PodCertificateRequest;
use api::core::persistent_volume::secrets_of_node;
use api::core::pod::mirror;
use api::core::pod_spec::references;
use api::core::{PersistentVolume, Pod};
use api::resource::ResourceSlice;
use api::storage::VolumeAttachment;
use api::{Lookup, Stored};
use apimachinery::{GroupResource, ObjectKey};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Object {
    Pod,
    Secret,
    ConfigMap,
    Claim,
    /// A PersistentVolume.
    Volume,
    /// A VolumeAttachment.
    Attachment,
    /// To devices.
    ResourceClaim,
    ResourceSlice,
    ServiceAccount,
    /// A PodCertificateRequest.
    CertificateRequest,
}

/// The pods of the cluster.
pub(super) struct Pods(Arc<dyn Lookup>);

impl Pods {
    pub(super) fn new(lookup: Arc<dyn Lookup>) -> Self {
        Self(lookup)
    }

    /// Whether the object is a pod of the node, or one of its pods needs it.
    pub(super) fn relate(&self, node: &str, object: Object, namespace: &str, name: &str) -> bool {
        let pods = GroupResource::new("", "pods");
        match object {
            Object::Pod => {
                let pod = self.0.find(&pods, &ObjectKey::new(namespace, name));
                pod.is_some_and(|it| is_bound(&it, node))
            }
            Object::Volume => {
                let volume = self.0.get::<PersistentVolume>(&ObjectKey::cluster(name));
                volume.is_some_and(|it| self.needs_volume(node, &it))
            }
            Object::Attachment => {
                let attachment = self.0.get::<VolumeAttachment>(&ObjectKey::cluster(name));
                attachment.is_some_and(|it| it.spec.node_name == node)
            }
            Object::Secret => {
                self.needs(node, object, namespace, name)
                    || self.needs_for_volume(node, namespace, name)
            }
            Object::CertificateRequest => {
                let request = self.0.get::<PodCertificateRequest>(&ObjectKey::new(namespace, name));
                request.is_some_and(|it| it.spec.node_name == node)
            }
            Object::ResourceSlice => {
                let slices = GroupResource::new("resource.k8s.io", "resourceslices");
                let slice = self.0.find(&slices, &ObjectKey::cluster(name));
                slice.is_some_and(|it| is_on(&it, node))
            }
            Object::ConfigMap | Object::Claim | Object::ResourceClaim | Object::ServiceAccount => {
                self.needs(node, object, namespace, name)
            }
        }
    }

    /// Whether a pod of the node refers to the object.
    fn needs(&self, node: &str, object: Object, namespace: &str, name: &str) -> bool {
        let pods = self.0.list(&GroupResource::new("", "pods"), Some(namespace));
        pods.iter()
            .filter(|it| is_bound(it, node))
            .filter_map(|it| it.typed(<Pod as api::Resource>::decode).ok())
            .any(|it| needs(&it, object, name))
    }

    /// A volume is of the claim that it says, whoever made it.
    fn needs_volume(&self, node: &str, volume: &PersistentVolume) -> bool {
        let claim = volume.spec.as_ref().and_then(|it| it.claim_ref.as_ref());
        let claim = claim.and_then(|it| it.namespace.as_deref().zip(it.name.as_deref()));
        claim.is_some_and(|(namespace, name)| self.needs(node, Object::Claim, namespace, name))
    }

    /// What the Secret opens may be a volume of one of its pods.
    fn needs_for_volume(&self, node: &str, namespace: &str, name: &str) -> bool {
        let volumes = self.0.all::<PersistentVolume>(None);
        let mut with_it =
            volumes.iter().filter(|it| secrets_of_node(it).contains(&(namespace, name)));
        with_it.any(|it| self.needs_volume(node, it))
    }
}

/// A pod that a node made up itself gives it nothing to read. NodeRestriction keeps references out
/// of such pods; here they would not count.
fn needs(pod: &Pod, object: Object, name: &str) -> bool {
    if mirror::is_mirror(pod) {
        return false;
    }
    let Some(spec) = &pod.spec else { return false };
    match object {
        Object::Secret => references::secrets(spec).contains(&name),
        Object::ConfigMap => references::config_maps(spec).contains(&name),
        Object::Claim => {
            let pod = pod.metadata.name.as_deref().unwrap_or_default();
            references::claims(pod, spec).iter().any(|it| it == name)
        }
        Object::ResourceClaim => resource_claims(pod).contains(&name),
        Object::ServiceAccount => spec.service_account_name.as_deref() == Some(name),
        Object::Pod
        | Object::CertificateRequest
        | Object::ResourceSlice
        | Object::Volume
        | Object::Attachment => false,
    }
}

/// The claims to devices of a pod: those that it names, those that were made for it from a
/// template, and the one for the extended resources of its containers. Only the first are the
/// author's to say; NodeRestriction keeps nodes from saying the others.
fn resource_claims(pod: &Pod) -> Vec<&str> {
    let status = pod.status.as_ref();
    let made = status.and_then(|it| it.resource_claim_statuses.as_deref()).unwrap_or_default();
    let claims = pod.spec.iter().flat_map(|it| it.resource_claims.iter().flatten());
    let names = claims.filter_map(|claim| match &claim.resource_claim_name {
        Some(name) => Some(name.as_str()),
        None => made.iter().find(|it| it.name == claim.name)?.resource_claim_name.as_deref(),
    });
    let extended = status.and_then(|it| it.extended_resource_claim_status.as_ref());
    names.chain(extended.map(|it| it.resource_claim_name.as_str())).collect()
}

fn is_on(slice: &Stored, node: &str) -> bool {
    let slice = slice.typed(<ResourceSlice as api::Resource>::decode);
    slice.is_ok_and(|it| it.spec.node_name.as_deref() == Some(node))
}

/// Reads the selectable field where the cache has it, so that pods of other nodes are not decoded.
fn is_bound(pod: &Stored, node: &str) -> bool {
    match pod.meta.fields.get("spec.nodeName") {
        Some(value) => value == node,
        None => pod
            .typed(<Pod as api::Resource>::decode)
            .is_ok_and(|it| it.spec.as_ref().and_then(|it| it.node_name.as_deref()) == Some(node)),
    }
}
