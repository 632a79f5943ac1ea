//! Leases, and what storage and devices will need: objects that belong to a node by
//! name or by a field. Kinds that are not served yet are read as JSON, so that the rules are there
//! when they are.

use serde_json::Value;

use super::{Verdict, unexpected_operation, unexpected_type};
use crate::attributes::Operation;
use crate::context::Context;
use crate::draft::{Draft, Forms};

const NAMESPACE_LEASES: &str = "kube-node-lease";

pub(super) fn validate_lease(node: &str, context: &Context<'_>) -> Verdict {
    if context.request.namespace != NAMESPACE_LEASES {
        let why = format!("can only access leases in the {NAMESPACE_LEASES:?} system namespace");
        return Err(context.forbidden(&why));
    }
    validate_name(node, "node lease", context)
}

pub(super) fn validate_csi_node(node: &str, context: &Context<'_>) -> Verdict {
    validate_name(node, "CSINode", context)?;
    if context.request.subresource == "status" {
        return Err(context.forbidden("CSIVolumeHealth feature gate is disabled"));
    }
    Ok(())
}

fn validate_name(node: &str, what: &str, context: &Context<'_>) -> Verdict {
    if context.name() == node {
        return Ok(());
    }
    let why = format!("can only access {what} with the same name as the requesting node");
    Err(context.forbidden(&why))
}

pub(super) fn validate_slice(node: &str, context: &Context<'_>) -> Verdict {
    let (object, verb) = match context.request.operation {
        Operation::Create => (context.draft().map(Draft::tree), "create"),
        Operation::Delete => (context.old().map(Forms::tree), "delete"),
        Operation::Update | Operation::Connect => return Ok(()),
    };
    let object = object.ok_or_else(|| unexpected_type(context))?;
    if object.pointer("/spec/nodeName").and_then(Value::as_str) == Some(node) {
        return Ok(());
    }
    let why =
        format!("can only {verb} ResourceSlice with the same NodeName as the requesting node");
    Err(context.forbidden(&why))
}

/// What a node may report of a claim: how large it is, and how it is getting there.
const CLAIM_STATUS: &[&str] =
    &["capacity", "conditions", "allocatedResourceStatuses", "allocatedResources"];

pub(super) fn validate_claim(node: &str, context: &Context<'_>) -> Verdict {
    if context.request.subresource != "status" {
        return Err(context.forbidden("may only update PVC status"));
    }
    if context.request.operation != Operation::Update {
        return Err(unexpected_operation(context));
    }
    let (Some(new), Some(old)) = (context.draft(), context.old()) else {
        return Err(unexpected_type(context));
    };
    let rest = |tree: &Value| {
        let mut value = tree.clone();
        let drop = |value: Option<&mut Value>, fields: &[&str]| {
            if let Some(map) = value.and_then(Value::as_object_mut) {
                map.retain(|key, _| !fields.contains(&key.as_str()));
            }
        };
        drop(value.pointer_mut("/metadata"), &["resourceVersion", "managedFields"]);
        drop(value.pointer_mut("/status"), CLAIM_STATUS);
        value
    };
    if rest(new.tree()) == rest(old.tree()) {
        return Ok(());
    }
    Err(context.forbidden(&format!(
        "node {node:?} is not allowed to update fields other than status.quantity and status.conditions"
    )))
}
