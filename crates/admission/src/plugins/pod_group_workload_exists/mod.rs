//! A PodGroup that says which template of which Workload it is from says so of one that there is.
//! Idle where groups are not served.

#[cfg(test)]
mod tests;

use std::future::ready;

use api::scheduling::{PodGroup, Workload};
use apimachinery::{ApiError, ObjectKey};
use features::{GENERIC_WORKLOAD, Gates};

use crate::attributes::{Attributes, Operation};
use crate::chain::{Phase, Plugin, Validating};
use crate::context::Context;

pub struct PodGroupWorkloadExists {
    is_active: bool,
}

impl PodGroupWorkloadExists {
    pub fn new(gates: &Gates) -> Self {
        Self { is_active: gates.is_enabled(GENERIC_WORKLOAD) }
    }
}

fn validate(context: &Context<'_>) -> Result<(), ApiError> {
    let group = context.object_as::<PodGroup>();
    let reference = group.and_then(|it| it.spec.pod_group_template_ref.as_ref()?.workload.as_ref());
    let Some(reference) = reference else { return Ok(()) };
    let (name, template) = (&reference.workload_name, &reference.pod_group_template_name);
    let rejected = |why: String| Err(context.forbidden(&format!("PodGroup rejected: {why}")));
    let key = ObjectKey::new(context.request.namespace, name);
    let Some(workload) = context.lookup.get::<Workload>(&key) else {
        return rejected(format!("Workload {name:?} not found"));
    };
    if workload.metadata.deletion_timestamp.is_some() {
        return rejected(format!("Workload {name:?} is being deleted"));
    }
    match workload.spec.pod_group_templates.iter().any(|it| it.name == *template) {
        true => Ok(()),
        false => rejected(format!("PodGroupTemplate {template:?} not found in Workload {name:?}")),
    }
}

impl Plugin for PodGroupWorkloadExists {
    fn name(&self) -> &'static str {
        "PodGroupWorkloadExists"
    }

    fn handles(&self, phase: Phase, request: &Attributes<'_>) -> bool {
        self.is_active
            && phase == Phase::Validate
            && request.operation == Operation::Create
            && request.is("scheduling.k8s.io", "podgroups", "")
    }

    fn validate<'a>(&'a self, context: &'a Context<'_>) -> Validating<'a> {
        Box::pin(ready(validate(context).map(|()| None)))
    }
}
