//! Pods keep others away from their node, and from nothing larger.

#[cfg(test)]
mod tests;

use std::future::ready;

use api::core::Pod;

use crate::attributes::{Attributes, Operation};
use crate::chain::{Phase, Plugin, Validating};
use crate::context::Context;

const HOSTNAME: &str = "kubernetes.io/hostname";

pub struct LimitPodHardAntiAffinityTopology;

/// The first key that is of something larger than a node.
fn other_key(pod: &Pod) -> Option<&str> {
    let affinity = pod.spec.as_ref()?.affinity.as_ref()?.pod_anti_affinity.as_ref()?;
    let terms = affinity.required_during_scheduling_ignored_during_execution.iter().flatten();
    terms.map(|it| it.topology_key.as_str()).find(|it| *it != HOSTNAME)
}

impl Plugin for LimitPodHardAntiAffinityTopology {
    fn name(&self) -> &'static str {
        "LimitPodHardAntiAffinityTopology"
    }

    fn handles(&self, phase: Phase, request: &Attributes<'_>) -> bool {
        phase == Phase::Validate
            && matches!(request.operation, Operation::Create | Operation::Update)
            && request.is("", "pods", "")
    }

    fn validate<'a>(&'a self, context: &'a Context<'_>) -> Validating<'a> {
        let refusal = context.object_as::<Pod>().and_then(other_key).map(|key| {
            context.forbidden(&format!(
                "affinity.PodAntiAffinity.RequiredDuringScheduling has TopologyKey {key} but only key {HOSTNAME} is allowed"
            ))
        });
        Box::pin(ready(refusal.map_or(Ok(None), Err)))
    }
}
