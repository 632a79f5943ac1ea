//! Pods: a node creates mirrors of its static pods, deletes and evicts its own, and reports on
//! them.

use api::core::pod::mirror;
use api::core::pod_spec::references;
use api::core::{Node, Pod};
use k8s_openapi::api::core::v1::{PodSpec, Volume, VolumeProjection};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;

use super::{Verdict, find, is_bound, unexpected_operation, unexpected_type};
use crate::attributes::Operation;
use crate::context::Context;

pub(super) fn validate(node: &str, context: &Context<'_>) -> Verdict {
    match (context.request.subresource, context.request.operation) {
        ("", Operation::Create) => validate_mirror(node, context),
        ("", Operation::Delete) => {
            let pod = context.old_as::<Pod>().ok_or_else(|| unexpected_type(context))?;
            if is_bound(pod, node) {
                return Ok(());
            }
            let why =
                format!("node {node:?} can only delete pods with spec.nodeName set to itself");
            Err(context.forbidden(&why))
        }
        ("", operation) => Err(context.forbidden(&format!(
            "unexpected operation {:?}, node {node:?} can only create and delete mirror pods",
            operation.text()
        ))),
        ("status", Operation::Update) => validate_status(node, context),
        ("eviction", Operation::Create) => {
            let pod = find::<Pod>(context, context.request.namespace, context.name())?;
            if is_bound(&pod, node) {
                return Ok(());
            }
            let why = format!("node {node} can only evict pods with spec.nodeName set to itself");
            Err(context.forbidden(&why))
        }
        ("status" | "eviction", _) => Err(unexpected_operation(context)),
        (other, _) => Err(context.forbidden(&format!(
            "unexpected pod subresource {other:?}, only 'status' and 'eviction' are allowed"
        ))),
    }
}

fn validate_mirror(node: &str, context: &Context<'_>) -> Verdict {
    let pod = context.object_as::<Pod>().ok_or_else(|| unexpected_type(context))?;
    if !mirror::is_mirror(pod) {
        return Err(context.forbidden(&format!(
            "pod does not have {:?} annotation, node {node:?} can only create mirror pods",
            mirror::ANNOTATION
        )));
    }
    if !is_bound(pod, node) {
        let why = format!("node {node:?} can only create pods with spec.nodeName set to itself");
        return Err(context.forbidden(&why));
    }
    let owners = pod.metadata.owner_references.as_deref().unwrap_or_default();
    validate_owner(node, owners, context)?;
    // A pod gives its node what it refers to: one that the node makes up may refer to nothing.
    match pod.spec.as_ref().and_then(refers_to) {
        None => Ok(()),
        Some(what) => {
            Err(context
                .forbidden(&format!("node {node:?} can not create pods that reference {what}")))
        }
    }
}

/// A mirror goes with its node, and with nothing else.
fn validate_owner(node: &str, owners: &[OwnerReference], context: &Context<'_>) -> Verdict {
    let no = |why: String| Err(context.forbidden(&why));
    let only =
        |what: &str| no(format!("node {node:?} can only create pods with {what} set to itself"));
    let owner = match owners {
        [] => return only("an owner reference"),
        [owner] => owner,
        _ => return only("a single owner reference"),
    };
    if owner.api_version != "v1" || owner.kind != "Node" || owner.name != node {
        return only("an owner reference");
    }
    if owner.controller != Some(true) {
        return only("a controller owner reference");
    }
    if owner.block_owner_deletion == Some(true) {
        return no(format!("node {node:?} must not set blockOwnerDeletion on an owner reference"));
    }
    let uid = find::<Node>(context, "", node)?.metadata.uid.clone().unwrap_or_default();
    if owner.uid != uid {
        return no(format!("node {node} UID mismatch: expected {} got {uid}", owner.uid));
    }
    Ok(())
}

fn validate_status(node: &str, context: &Context<'_>) -> Verdict {
    let no = |why: String| Err(context.forbidden(&why));
    let (Some(pod), Some(old)) = (context.object_as::<Pod>(), context.old_as::<Pod>()) else {
        return Err(unexpected_type(context));
    };
    if !is_bound(old, node) {
        return no(format!(
            "node {node:?} can only update pod status for pods with spec.nodeName set to itself"
        ));
    }
    if pod.metadata.labels.clone().unwrap_or_default()
        != old.metadata.labels.clone().unwrap_or_default()
    {
        return no(format!("node {node:?} cannot update labels through pod status"));
    }
    let (status, before) =
        (pod.status.clone().unwrap_or_default(), old.status.clone().unwrap_or_default());
    if status.resource_claim_statuses.unwrap_or_default()
        != before.resource_claim_statuses.unwrap_or_default()
    {
        return no(format!("node {node:?} cannot update resource claim statues"));
    }
    if status.extended_resource_claim_status != before.extended_resource_claim_status {
        return no(format!("node {node:?} cannot update extended resource claim status"));
    }
    if status.node_allocatable_resource_claim_statuses.unwrap_or_default()
        != before.node_allocatable_resource_claim_statuses.unwrap_or_default()
    {
        return no(format!("node {node:?} cannot update node allocatable resource claim statuses"));
    }
    Ok(())
}

/// What of the API a pod needs, if anything. A volume that is not known to need nothing counts.
pub(super) fn refers_to(spec: &PodSpec) -> Option<String> {
    if spec.service_account_name.as_ref().is_some_and(|it| !it.is_empty()) {
        return Some("serviceaccounts".to_owned());
    }
    if !references::secrets(spec).is_empty() {
        return Some("secrets".to_owned());
    }
    if !references::config_maps(spec).is_empty() {
        return Some("configmaps".to_owned());
    }
    if spec.resource_claims.as_ref().is_some_and(|it| !it.is_empty()) {
        return Some("resourceclaims".to_owned());
    }
    spec.volumes.iter().flatten().find_map(volume_refers_to)
}

fn volume_refers_to(volume: &Volume) -> Option<String> {
    let named = [
        (volume.config_map.is_some(), "configmaps (via configmap volumes)"),
        (volume.secret.is_some(), "secrets (via secret volumes)"),
        (volume.csi.is_some(), "csidrivers (via CSI volumes)"),
        (volume.glusterfs.is_some(), "endpoints (via glusterFS volumes)"),
        (volume.persistent_volume_claim.is_some(), "persistentvolumeclaims"),
        (volume.ephemeral.is_some(), "persistentvolumeclaims (via ephemeral volumes)"),
        (volume.azure_file.is_some(), "secrets (via azureFile volumes)"),
    ];
    if let Some((_, what)) = named.into_iter().find(|it| it.0) {
        return Some(what.to_owned());
    }
    if let Some(projected) = &volume.projected {
        let mut sources = projected.sources.iter().flatten();
        return sources.find_map(|it| projection_refers_to(&volume.name, it));
    }
    (!is_harmless(volume)).then(|| format!("an unknown volume type (volume {:?})", volume.name))
}

fn projection_refers_to(volume: &str, source: &VolumeProjection) -> Option<String> {
    let named = [
        (source.config_map.is_some(), "configmaps (via projected volumes)"),
        (source.secret.is_some(), "secrets (via projected volumes)"),
        (source.service_account_token.is_some(), "serviceaccounts (via projected volumes)"),
        (source.cluster_trust_bundle.is_some(), "clustertrustbundles"),
        (source.pod_certificate.is_some(), "podcertificates"),
    ];
    let named = named.into_iter().find(|it| it.0).map(|(_, what)| what.to_owned());
    let unknown = || format!("an unknown source (projected volume {volume:?})");
    named.or_else(|| source.downward_api.is_none().then(unknown))
}

/// Volumes that the node serves, or that hold no reference but to a Secret, which has been looked
/// for.
fn is_harmless(volume: &Volume) -> bool {
    volume.aws_elastic_block_store.is_some()
        || volume.azure_disk.is_some()
        || volume.cephfs.is_some()
        || volume.cinder.is_some()
        || volume.downward_api.is_some()
        || volume.empty_dir.is_some()
        || volume.fc.is_some()
        || volume.flex_volume.is_some()
        || volume.flocker.is_some()
        || volume.gce_persistent_disk.is_some()
        || volume.git_repo.is_some()
        || volume.host_path.is_some()
        || volume.image.is_some()
        || volume.iscsi.is_some()
        || volume.nfs.is_some()
        || volume.photon_persistent_disk.is_some()
        || volume.portworx_volume.is_some()
        || volume.quobyte.is_some()
        || volume.rbd.is_some()
        || volume.scale_io.is_some()
        || volume.storageos.is_some()
        || volume.vsphere_volume.is_some()
}
