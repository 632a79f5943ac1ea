//! What of a Job's spec may change: little once it runs, more while it is suspended.

use k8s_openapi::api::batch::v1::{Job, JobSpec};
use k8s_openapi::api::core::v1::{Affinity, Container, PodSpec, PodTemplateSpec};
use serde::Serialize;

use apimachinery::FieldErrors;
use apimachinery::field::Path;

use super::super::{conditions, is_indexed};
use crate::{check, codec, semantic};

pub(super) fn validate(spec: &JobSpec, stored: &Job, old: &JobSpec, errors: &mut FieldErrors) {
    let path = Path::new("spec");
    validate_completions(spec, old, &path.child("completions"), errors);
    immutable(&spec.selector, &old.selector, &path.child("selector"), errors);
    validate_template(&spec.template, stored, old, &path.child("template"), errors);
    immutable(&spec.completion_mode, &old.completion_mode, &path.child("completionMode"), errors);
    let (policy, old_policy) = (&spec.pod_failure_policy, &old.pod_failure_policy);
    immutable(policy, old_policy, &path.child("podFailurePolicy"), errors);
    let (limit, old_limit) = (&spec.backoff_limit_per_index, &old.backoff_limit_per_index);
    immutable(limit, old_limit, &path.child("backoffLimitPerIndex"), errors);
    immutable(&spec.managed_by, &old.managed_by, &path.child("managedBy"), errors);
    immutable(&spec.success_policy, &old.success_policy, &path.child("successPolicy"), errors);
}

fn immutable<T: PartialEq + Serialize>(new: &T, old: &T, path: &Path, errors: &mut FieldErrors) {
    if !semantic::equal(new, old) {
        check::immutable(false, codec::tree(new), path, errors);
    }
}

/// An indexed Job can be scaled, if it has a worker for each index.
fn validate_completions(spec: &JobSpec, old: &JobSpec, path: &Path, errors: &mut FieldErrors) {
    if !is_indexed(spec) {
        return immutable(&spec.completions, &old.completions, path, errors);
    }
    let Some(completions) = spec.completions.filter(|it| old.completions != Some(*it)) else {
        return;
    };
    if spec.parallelism != Some(completions) {
        let detail = "can only be modified in tandem with spec.parallelism";
        errors.invalid(path, completions, detail);
    }
}

/// Where its pods run and what they ask for may change while there are none.
fn validate_template(
    template: &PodTemplateSpec,
    stored: &Job,
    old: &JobSpec,
    path: &Path,
    errors: &mut FieldErrors,
) {
    if !is_at_rest(stored, old) {
        return immutable(template, &old.template, path, errors);
    }
    let new = template.spec.clone().unwrap_or_default();
    let expected = with_free_fields(old.template.spec.clone().unwrap_or_default(), &new);
    immutable(&new, &expected, &path.child("spec"), errors);
}

/// Suspended, and not only asked to be.
fn is_at_rest(job: &Job, spec: &JobSpec) -> bool {
    let status = job.status.clone().unwrap_or_default();
    let has_stopped =
        status.start_time.is_none() || conditions::is_true(&status, conditions::SUSPENDED);
    spec.suspend == Some(true) && has_stopped && status.active.unwrap_or(0) == 0
}

/// The old spec with everything of the new one that may be another.
fn with_free_fields(old: PodSpec, new: &PodSpec) -> PodSpec {
    let affinity = affinity_with_free_fields(old.affinity, new.affinity.as_ref());
    PodSpec {
        affinity,
        node_selector: new.node_selector.clone(),
        tolerations: new.tolerations.clone(),
        scheduling_gates: new.scheduling_gates.clone(),
        containers: with_resources(old.containers, &new.containers),
        init_containers: old
            .init_containers
            .map(|it| with_resources(it, new.init_containers.as_deref().unwrap_or_default())),
        ..old
    }
}

/// The affinity to nodes alone is free.
fn affinity_with_free_fields(old: Option<Affinity>, new: Option<&Affinity>) -> Option<Affinity> {
    let affinity = Affinity {
        node_affinity: new.and_then(|it| it.node_affinity.clone()),
        ..old.unwrap_or_default()
    };
    (new.is_some() || affinity != Affinity::default()).then_some(affinity)
}

/// Of each container that is still the same one.
fn with_resources(old: Vec<Container>, new: &[Container]) -> Vec<Container> {
    if old.len() != new.len() {
        return old;
    }
    let same = |(old, new): (Container, &Container)| {
        let resources =
            if old.name == new.name { new.resources.clone() } else { old.resources.clone() };
        Container { resources, ..old }
    };
    old.into_iter().zip(new).map(same).collect()
}
