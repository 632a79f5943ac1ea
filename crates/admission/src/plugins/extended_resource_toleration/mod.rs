//! Who asks for an extended resource tolerates the taint that keeps others off the nodes that have
//! it: both have the resource's name.

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::future::ready;

use api::core::{Pod, is_extended_resource};
use k8s_openapi::api::core::v1::{PodSpec, Toleration};

use crate::attributes::{Attributes, Operation};
use crate::chain::{Admitting, Phase, Plugin};
use crate::context::Context;

pub struct ExtendedResourceToleration;

fn resources(spec: &PodSpec) -> BTreeSet<String> {
    let containers = spec.containers.iter().chain(spec.init_containers.iter().flatten());
    let resources = containers.filter_map(|it| it.resources.as_ref()?.requests.as_ref());
    let names = resources.flat_map(|it| it.keys());
    names.filter(|it| is_extended_resource(it)).cloned().collect()
}

/// In place of one that is for the same, whatever it says beyond that.
fn add(tolerations: &mut Vec<Toleration>, toleration: Toleration) {
    let is_same = |it: &&mut Toleration| {
        let value = it.value.as_deref().unwrap_or_default();
        it.key == toleration.key
            && it.effect == toleration.effect
            && it.operator == toleration.operator
            && value.is_empty()
    };
    match tolerations.iter_mut().find(is_same) {
        Some(known) => *known = toleration,
        None => tolerations.push(toleration),
    }
}

impl Plugin for ExtendedResourceToleration {
    fn name(&self) -> &'static str {
        "ExtendedResourceToleration"
    }

    fn handles(&self, phase: Phase, request: &Attributes<'_>) -> bool {
        phase == Phase::Mutate
            && matches!(request.operation, Operation::Create | Operation::Update)
            && request.is("", "pods", "")
    }

    fn admit<'a>(&'a self, context: &'a mut Context<'_>) -> Admitting<'a> {
        let spec = context.object_as::<Pod>().and_then(|it| it.spec.as_ref());
        let resources = spec.map(resources).unwrap_or_default();
        if !resources.is_empty()
            && let Some(spec) = context.object_as_mut::<Pod>().and_then(|it| it.spec.as_mut())
        {
            let tolerations = spec.tolerations.get_or_insert_default();
            for resource in resources {
                let toleration = Toleration {
                    key: Some(resource),
                    operator: Some("Exists".to_owned()),
                    effect: Some("NoSchedule".to_owned()),
                    ..Toleration::default()
                };
                add(tolerations, toleration);
            }
        }
        Box::pin(ready(Ok(())))
    }
}
