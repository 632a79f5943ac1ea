//! A Job whose pods are started as one does not change how many they are. Idle where groups of pods
//! are not served.

#[cfg(test)]
mod tests;

use std::future::ready;
use std::sync::Arc;

use api::batch::Job;
use api::scheduling::PodGroup;
use apimachinery::{ApiError, ObjectKey};
use features::{GENERIC_WORKLOAD, Gates};

use crate::attributes::{Attributes, Operation};
use crate::chain::{Phase, Plugin, Validating};
use crate::context::Context;

pub struct JobValidation {
    is_active: bool,
}

impl JobValidation {
    pub fn new(gates: &Gates) -> Self {
        Self { is_active: gates.is_enabled(GENERIC_WORKLOAD) }
    }
}

/// The groups that its template names, or else those that it made.
fn groups_of(job: &Job, context: &Context<'_>) -> Vec<Arc<PodGroup>> {
    let namespace = context.request.namespace;
    let spec = job.spec.as_ref().and_then(|it| it.template.spec.as_ref());
    let named = spec.and_then(|it| it.scheduling_group.as_ref()?.pod_group_name.as_deref());
    if let Some(name) = named {
        let key = ObjectKey::new(namespace, name);
        return context.lookup.get::<PodGroup>(&key).into_iter().collect();
    }
    let is_own = |group: &Arc<PodGroup>| {
        let owners = group.metadata.owner_references.iter().flatten();
        let mut controllers = owners.filter(|it| it.controller == Some(true));
        controllers.any(|it| job.metadata.uid.as_ref() == Some(&it.uid))
    };
    context.lookup.all::<PodGroup>(Some(namespace)).into_iter().filter(is_own).collect()
}

fn validate(context: &Context<'_>) -> Result<(), ApiError> {
    let Some((job, old)) = context.object_as::<Job>().zip(context.old_as::<Job>()) else {
        return Ok(());
    };
    let parallelism = |it: &Job| it.spec.as_ref().and_then(|it| it.parallelism);
    if parallelism(job) == parallelism(old) {
        return Ok(());
    }
    let groups = groups_of(old, context);
    match groups.iter().find(|it| it.spec.scheduling_policy.gang.is_some()) {
        None => Ok(()),
        Some(group) => Err(context.forbidden(&format!(
            "cannot change parallelism for a Job referencing gang-scheduled PodGroup {:?}",
            group.metadata.name.as_deref().unwrap_or_default()
        ))),
    }
}

impl Plugin for JobValidation {
    fn name(&self) -> &'static str {
        "JobValidation"
    }

    fn handles(&self, phase: Phase, request: &Attributes<'_>) -> bool {
        self.is_active
            && phase == Phase::Validate
            && request.operation == Operation::Update
            && request.is("batch", "jobs", "")
    }

    fn validate<'a>(&'a self, context: &'a Context<'_>) -> Validating<'a> {
        Box::pin(ready(validate(context).map(|()| None)))
    }
}
