//! A pod on a node is resized to what its node could give it, if nothing else ran there.

#[cfg(test)]
mod tests;

use std::future::ready;

use api::Lookup;
use api::core::{Node, Pod};
use apimachinery::ObjectKey;
use apimachinery::quantity::Amount;

use crate::attributes::{Attributes, Operation};
use crate::chain::{Phase, Plugin, Validating};
use crate::context::Context;

pub struct PodResizeValidator;

impl Plugin for PodResizeValidator {
    fn name(&self) -> &'static str {
        "PodResizeValidator"
    }

    fn handles(&self, phase: Phase, request: &Attributes<'_>) -> bool {
        phase == Phase::Validate
            && request.operation == Operation::Update
            && request.is("", "pods", "resize")
    }

    fn validate<'a>(&'a self, context: &'a Context<'_>) -> Validating<'a> {
        let pods = context.object_as().zip(context.old_as());
        let outcome = pods.map_or(Ok(()), |(pod, old)| judge(pod, old, context.lookup));
        let refusal = |it: Refusal| match it.cause {
            Some(cause) => context.forbidden(&it.why).with_cause(cause, "", ""),
            None => context.forbidden(&it.why),
        };
        Box::pin(ready(outcome.map(|()| None).map_err(refusal)))
    }
}

#[derive(Debug)]
struct Refusal {
    why: String,
    /// The reason of a cause in the answer's details.
    cause: Option<&'static str>,
}

/// Whether the write leaves the spec as it is, or the pod has no node yet: nobody has to be asked.
pub(super) fn is_settled(pod: &Pod, old: &Pod) -> bool {
    let node = pod.spec.as_ref().and_then(|it| it.node_name.as_deref()).unwrap_or_default();
    node.is_empty() || pod.metadata.generation == old.metadata.generation
}

fn judge(pod: &Pod, old: &Pod, lookup: &(dyn Lookup + 'static)) -> Result<(), Refusal> {
    let Some(spec) = pod.spec.as_ref().filter(|_| !is_settled(pod, old)) else { return Ok(()) };
    let name = spec.node_name.as_deref().unwrap_or_default();
    let Some(node) = lookup.get::<Node>(&ObjectKey::cluster(name)) else {
        return Err(Refusal { why: format!("node {name:?} not found"), cause: None });
    };
    let os = node.metadata.labels.as_ref().and_then(|it| it.get("kubernetes.io/os"));
    if let Some(os) = os.filter(|it| *it != "linux") {
        let why = format!("pod resize is only supported on linux nodes, node {name:?} is {os:?}");
        return Err(Refusal { why, cause: Some("UnsupportedPlatform") });
    }
    let allocatable = node.status.as_ref().and_then(|it| it.allocatable.as_ref());
    let amount = |name: &str| {
        let quantity = allocatable.and_then(|it| it.get(name));
        quantity.and_then(|it| Amount::parse(&it.0).ok()).unwrap_or(Amount::ZERO)
    };
    let requests = api::core::pod::requests(spec);
    let offered = [("cpu", amount("cpu").millis()), ("memory", amount("memory").value())];
    let exceeded: Vec<String> = offered
        .into_iter()
        .map(|(name, offered)| (name, requests.get(name).copied().unwrap_or(0), offered))
        .filter(|(_, requested, offered)| requested > offered)
        .map(|(name, requested, offered)| {
            format!("{name}, requested: {requested}, allocatable: {offered}")
        })
        .collect();
    if exceeded.is_empty() {
        return Ok(());
    }
    let why = format!("node didn't have enough allocatable resources: {}", exceeded.join("; "));
    Err(Refusal { why, cause: Some("NodeCapacity") })
}
