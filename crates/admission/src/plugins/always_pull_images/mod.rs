//! Every image is pulled by whoever uses it, so that nobody uses what only others may pull.

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::future::ready;

use api::core::Pod;
use apimachinery::FieldErrors;
use apimachinery::field::Path;
use k8s_openapi::api::core::v1::PodSpec;

use crate::attributes::{Attributes, Operation};
use crate::chain::{Admitting, Phase, Plugin, Validating};
use crate::context::Context;

const ALWAYS: &str = "Always";

pub struct AlwaysPullImages;

/// The policy of one image, whatever it is of.
type Policy = Option<String>;

/// Every place of a pod spec that says when an image is pulled. A test compares it with the schema.
fn visit(spec: &mut PodSpec, mut each: impl FnMut(&mut Policy)) {
    let init = spec.init_containers.iter_mut().flatten();
    init.for_each(|it| each(&mut it.image_pull_policy));
    spec.containers.iter_mut().for_each(|it| each(&mut it.image_pull_policy));
    let ephemeral = spec.ephemeral_containers.iter_mut().flatten();
    ephemeral.for_each(|it| each(&mut it.image_pull_policy));
    let images = spec.volumes.iter_mut().flatten().filter_map(|it| it.image.as_mut());
    images.for_each(|it| each(&mut it.pull_policy));
}

/// The same places, with their paths.
fn policies(spec: &PodSpec) -> Vec<(Path, &Policy)> {
    let at = |field: &str, index: usize, policy: &str| {
        Path::new("spec").child(field).index(index).child(policy)
    };
    let of =
        |field: &'static str| move |(index, policy)| (at(field, index, "imagePullPolicy"), policy);
    let init = spec.init_containers.iter().flatten().map(|it| &it.image_pull_policy).enumerate();
    let plain = spec.containers.iter().map(|it| &it.image_pull_policy).enumerate();
    let ephemeral = spec.ephemeral_containers.iter().flatten();
    let ephemeral = ephemeral.map(|it| &it.image_pull_policy).enumerate();
    let images = spec.volumes.iter().flatten().enumerate().filter_map(|(index, it)| {
        let policy = &it.image.as_ref()?.pull_policy;
        Some((
            Path::new("spec").child("volumes").index(index).child("image").child("pullPolicy"),
            policy,
        ))
    });
    init.map(of("initContainers"))
        .chain(plain.map(of("containers")))
        .chain(ephemeral.map(of("ephemeralContainers")))
        .chain(images)
        .collect()
}

/// Images of containers; those of volumes cannot change.
fn images(pod: &Pod) -> BTreeSet<&str> {
    let Some(spec) = &pod.spec else { return BTreeSet::new() };
    let init = spec.init_containers.iter().flatten().map(|it| &it.image);
    let plain = spec.containers.iter().map(|it| &it.image);
    let ephemeral = spec.ephemeral_containers.iter().flatten().map(|it| &it.image);
    init.chain(plain).chain(ephemeral).map(|it| it.as_deref().unwrap_or_default()).collect()
}

/// Whether there is an image that was not there before.
fn is_concerned(context: &Context<'_>) -> bool {
    let Some(pod) = context.object_as::<Pod>() else { return false };
    context.old_as::<Pod>().is_none_or(|old| !images(pod).is_subset(&images(old)))
}

fn problems(pod: &Pod) -> FieldErrors {
    let mut errors = FieldErrors::new();
    for (path, policy) in pod.spec.iter().flat_map(policies) {
        let policy = policy.as_deref().unwrap_or_default();
        if policy != ALWAYS {
            errors.not_supported(&path, policy, &[ALWAYS]);
        }
    }
    errors
}

impl Plugin for AlwaysPullImages {
    fn name(&self) -> &'static str {
        "AlwaysPullImages"
    }

    fn handles(&self, _phase: Phase, request: &Attributes<'_>) -> bool {
        matches!(request.operation, Operation::Create | Operation::Update)
            && request.is("", "pods", "")
    }

    fn admit<'a>(&'a self, context: &'a mut Context<'_>) -> Admitting<'a> {
        if is_concerned(context)
            && let Some(spec) = context.object_as_mut::<Pod>().and_then(|it| it.spec.as_mut())
        {
            visit(spec, |policy| *policy = Some(ALWAYS.to_owned()));
        }
        Box::pin(ready(Ok(())))
    }

    fn validate<'a>(&'a self, context: &'a Context<'_>) -> Validating<'a> {
        let pod = context.object_as::<Pod>().filter(|_| is_concerned(context));
        let errors = pod.map(problems).unwrap_or_default();
        let outcome = match errors.is_empty() {
            true => Ok(None),
            false => Err(context.forbidden(&errors.to_string())),
        };
        Box::pin(ready(outcome))
    }
}
