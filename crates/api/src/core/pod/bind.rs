//! The step that gives a pod its node.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Binding, Pod, PodCondition};

use super::conditions;
use crate::check::text;

/// Places the pod on the node that the binding names. The error is the reason of a conflict.
pub fn bind(pod: &mut Pod, binding: &Binding, now: Timestamp) -> Result<(), String> {
    let name = text(pod.metadata.name.as_ref()).to_owned();
    let spec = pod.spec.get_or_insert_default();
    if pod.metadata.deletion_timestamp.is_some() {
        return Err(format!("pod {name} is being deleted, cannot be assigned to a host"));
    }
    let assigned = text(spec.node_name.as_ref());
    if !assigned.is_empty() {
        return Err(format!("pod {name} is already assigned to node {assigned:?}"));
    }
    if spec.scheduling_gates.as_ref().is_some_and(|it| !it.is_empty()) {
        return Err(format!("pod {name} has non-empty .spec.schedulingGates"));
    }
    spec.node_name.clone_from(&binding.target.name);
    if let Some(annotations) = &binding.metadata.annotations {
        pod.metadata.annotations.get_or_insert_default().extend(annotations.clone());
    }
    // Labels on a binding carry the topology of the node to the pod, which knows no better.
    if let Some(labels) = &binding.metadata.labels {
        pod.metadata.labels.get_or_insert_default().extend(labels.clone());
    }
    let condition = PodCondition {
        type_: "PodScheduled".to_owned(),
        status: "True".to_owned(),
        ..PodCondition::default()
    };
    conditions::set(pod, condition, now);
    // A nomination is only a promise; it ends with the placement.
    pod.status.get_or_insert_default().nominated_node_name = None;
    Ok(())
}
