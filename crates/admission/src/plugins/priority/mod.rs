//! A pod's priority is computed from its class, never taken from the client.
//!
//! There is no PriorityClass kind yet: the two classes that every cluster has are built in, and no
//! class is the default.

#[cfg(test)]
mod tests;

use std::future::ready;

use api::core::Pod;
use apimachinery::ApiError;
use k8s_openapi::api::core::v1::PodSpec;

use crate::attributes::{Attributes, Operation};
use crate::chain::{Admitting, Phase, Plugin};
use crate::context::Context;

const CLASSES: &[(&str, i32)] =
    &[("system-cluster-critical", 2_000_000_000), ("system-node-critical", 2_000_001_000)];
const POLICY: &str = "PreemptLowerPriority";

pub struct Priority;

/// The priority that the class of `spec` gives, or why it gives none.
fn priority_of(spec: &PodSpec) -> Result<i32, String> {
    let Some(class) = spec.priority_class_name.as_deref().filter(|it| !it.is_empty()) else {
        return Ok(0);
    };
    CLASSES
        .iter()
        .find(|(name, _)| *name == class)
        .map(|(_, value)| *value)
        .ok_or_else(|| format!("no PriorityClass with name {class} was found"))
}

fn fill(spec: &mut PodSpec) -> Result<(), String> {
    let priority = priority_of(spec)?;
    if let Some(given) = spec.priority.filter(|it| *it != priority) {
        return Err(format!(
            "the integer value of priority ({given}) must not be provided in pod spec; \
             priority admission controller computed {priority} from the given PriorityClass name"
        ));
    }
    if let Some(given) = spec.preemption_policy.as_deref().filter(|it| *it != POLICY) {
        return Err(format!(
            "the string value of PreemptionPolicy ({given}) must not be provided in pod spec; \
             priority admission controller computed {POLICY} from the given PriorityClass name"
        ));
    }
    spec.priority = Some(priority);
    spec.preemption_policy = Some(POLICY.to_owned());
    Ok(())
}

fn admit(context: &mut Context<'_>) -> Result<(), ApiError> {
    let stored = context.old_as::<Pod>().and_then(|it| it.spec.as_ref());
    let stored = stored.map(|it| (it.priority, it.preemption_policy.clone()));
    let operation = context.request.operation;
    let Some(spec) = context.object_as_mut::<Pod>().and_then(|it| it.spec.as_mut()) else {
        return Ok(());
    };
    match (operation, stored) {
        (Operation::Create, _) => fill(spec).map_err(|why| context.forbidden(&why)),
        // Neither can change; a client that left them out means what is there.
        (Operation::Update, Some((priority, policy))) => {
            spec.priority = spec.priority.or(priority);
            spec.preemption_policy = spec.preemption_policy.take().or(policy);
            Ok(())
        }
        _ => Ok(()),
    }
}

impl Plugin for Priority {
    fn name(&self) -> &'static str {
        "Priority"
    }

    fn handles(&self, phase: Phase, request: &Attributes<'_>) -> bool {
        phase == Phase::Mutate
            && matches!(request.operation, Operation::Create | Operation::Update)
            && request.is("", "pods", "")
    }

    fn admit<'a>(&'a self, context: &'a mut Context<'_>) -> Admitting<'a> {
        Box::pin(ready(admit(context)))
    }
}
