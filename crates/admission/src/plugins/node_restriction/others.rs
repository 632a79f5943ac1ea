//! Leases, and what storage, devices and certificates will need: objects that belong to a node by name or by a field. Kinds
//! that are not served yet are read as JSON, so that the rules are there when they are.

use api::ApiObject;
use serde_json::Value;

use super::{Verdict, name_of, unexpected_operation, unexpected_type};
use crate::attributes::{Attributes, Operation};

const NAMESPACE_LEASES: &str = "kube-node-lease";
/// Whose certificates make somebody a node.
const SIGNERS: &[&str] =
    &["kubernetes.io/kubelet-serving", "kubernetes.io/kube-apiserver-client-kubelet"];

pub(super) fn check_lease(node: &str, attributes: &Attributes<'_>) -> Verdict {
    if attributes.namespace != NAMESPACE_LEASES {
        let why = format!("can only access leases in the {NAMESPACE_LEASES:?} system namespace");
        return Err(attributes.forbidden(&why));
    }
    check_name(node, "node lease", attributes)
}

pub(super) fn check_csi_node(node: &str, attributes: &Attributes<'_>) -> Verdict {
    check_name(node, "CSINode", attributes)?;
    if attributes.subresource == "status" {
        return Err(attributes.forbidden("CSIVolumeHealth feature gate is disabled"));
    }
    Ok(())
}

fn check_name(node: &str, what: &str, attributes: &Attributes<'_>) -> Verdict {
    if name_of(attributes) == node {
        return Ok(());
    }
    let why = format!("can only access {what} with the same name as the requesting node");
    Err(attributes.forbidden(&why))
}

pub(super) fn check_slice(node: &str, attributes: &Attributes<'_>) -> Verdict {
    let (object, verb) = match attributes.operation {
        Operation::Create => (attributes.object.as_deref(), "create"),
        Operation::Delete => (attributes.old, "delete"),
        Operation::Update | Operation::Connect => return Ok(()),
    };
    let object = object.ok_or_else(|| unexpected_type(attributes))?;
    if object.to_value().pointer("/spec/nodeName").and_then(Value::as_str) == Some(node) {
        return Ok(());
    }
    let why =
        format!("can only {verb} ResourceSlice with the same NodeName as the requesting node");
    Err(attributes.forbidden(&why))
}

/// Nothing here reads certificate requests yet, so that none makes a node.
pub(super) fn check_signing_request(attributes: &Attributes<'_>) -> Verdict {
    let object = attributes.object.as_deref().map(ApiObject::to_value).unwrap_or_default();
    let signer = object.pointer("/spec/signerName").and_then(Value::as_str).unwrap_or_default();
    if attributes.operation == Operation::Create && SIGNERS.contains(&signer) {
        return Err(
            attributes.forbidden("unable to parse csr: certificate requests are not supported")
        );
    }
    Ok(())
}

/// What a node may report of a claim: how large it is, and how it is getting there.
const CLAIM_STATUS: &[&str] =
    &["capacity", "conditions", "allocatedResourceStatuses", "allocatedResources"];

pub(super) fn check_claim(node: &str, attributes: &Attributes<'_>) -> Verdict {
    if attributes.subresource != "status" {
        return Err(attributes.forbidden("may only update PVC status"));
    }
    if attributes.operation != Operation::Update {
        return Err(unexpected_operation(attributes));
    }
    let (Some(new), Some(old)) = (attributes.object.as_deref(), attributes.old) else {
        return Err(unexpected_type(attributes));
    };
    let rest = |object: &dyn ApiObject| {
        let mut value = object.to_value();
        let drop = |value: Option<&mut Value>, fields: &[&str]| {
            if let Some(map) = value.and_then(Value::as_object_mut) {
                map.retain(|key, _| !fields.contains(&key.as_str()));
            }
        };
        drop(value.pointer_mut("/metadata"), &["resourceVersion", "managedFields"]);
        drop(value.pointer_mut("/status"), CLAIM_STATUS);
        value
    };
    if rest(new) == rest(old) {
        return Ok(());
    }
    Err(attributes.forbidden(&format!(
        "node {node:?} is not allowed to update fields other than status.quantity and status.conditions"
    )))
}
