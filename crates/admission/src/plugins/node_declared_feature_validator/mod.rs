//! What a write asks of the node that a pod runs on, the node has said that it can do
//! (`status.declaredFeatures`). Features and texts as upstream's
//! (k8s.io/component-helpers/nodedeclaredfeatures).

#[cfg(test)]
mod tests;

use std::future::ready;

use api::Lookup;
use api::core::{Node, Pod};
use apimachinery::ObjectKey;
use k8s_openapi::api::core::v1::{Container, PodSpec};

use super::pod_resize_validator::is_settled;
use crate::attributes::{Attributes, Operation};
use crate::chain::{Phase, Plugin, Validating};
use crate::context::Context;

/// Whether a change from one spec to the other takes a feature.
type IsRequired = fn(&PodSpec, &PodSpec) -> bool;

/// What may have to be declared, by name.
const FEATURES: &[(&str, IsRequired)] = &[
    ("InPlacePodLevelResourcesVerticalScaling", |old, new| old.resources != new.resources),
    ("InPlacePodVerticalScalingInitContainers", resizes_init_containers),
];

pub struct NodeDeclaredFeatureValidator;

impl Plugin for NodeDeclaredFeatureValidator {
    fn name(&self) -> &'static str {
        "NodeDeclaredFeatureValidator"
    }

    fn handles(&self, phase: Phase, request: &Attributes<'_>) -> bool {
        phase == Phase::Validate
            && request.operation == Operation::Update
            && (request.is("", "pods", "") || request.is("", "pods", "resize"))
    }

    fn validate<'a>(&'a self, context: &'a Context<'_>) -> Validating<'a> {
        let pods = context.object_as().zip(context.old_as());
        let outcome = pods.map_or(Ok(()), |(pod, old)| judge(pod, old, context.lookup));
        Box::pin(ready(outcome.map(|()| None).map_err(|why| context.forbidden(&why))))
    }
}

/// Those that run to their end before the others start.
fn resizes_init_containers(old: &PodSpec, new: &PodSpec) -> bool {
    let is_sidecar = |it: &Container| it.restart_policy.as_deref() == Some("Always");
    let pairs = old.init_containers.iter().flatten().zip(new.init_containers.iter().flatten());
    pairs.filter(|(old, _)| !is_sidecar(old)).any(|(old, new)| old.resources != new.resources)
}

fn judge(pod: &Pod, old: &Pod, lookup: &(dyn Lookup + 'static)) -> Result<(), String> {
    let specs = pod.spec.as_ref().zip(old.spec.as_ref());
    let Some((new, before)) = specs.filter(|_| !is_settled(pod, old)) else { return Ok(()) };
    let required = FEATURES.iter().filter(|(_, is_required)| is_required(before, new));
    let required: Vec<&str> = required.map(|(name, _)| *name).collect();
    if required.is_empty() {
        return Ok(());
    }
    let name = new.node_name.as_deref().unwrap_or_default();
    let node = lookup.get::<Node>(&ObjectKey::cluster(name));
    let node = node.ok_or_else(|| format!("node {name:?} not found"))?;
    let declared = node.status.as_ref().and_then(|it| it.declared_features.as_ref());
    let is_declared = |it: &&str| declared.is_some_and(|all| all.iter().any(|own| own == it));
    let missing: Vec<&str> = required.into_iter().filter(|it| !is_declared(it)).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let missing = missing.join(", ");
    Err(format!("pod update requires features {missing} which are not available on node {name:?}"))
}
