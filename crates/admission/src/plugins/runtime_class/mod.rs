//! A pod that names a RuntimeClass costs what the class costs beside its containers, and runs where
//! the class is. Nobody says so but the class.

#[cfg(test)]
mod tests;

use std::future::ready;
use std::sync::Arc;

use api::core::Pod;
use api::node::RuntimeClass;
use apimachinery::quantity::Amount;
use apimachinery::{ApiError, ObjectKey};
use k8s_openapi::api::core::v1::PodSpec;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

use crate::attributes::{Attributes, Operation};
use crate::chain::{Admitting, Phase, Plugin, Validating};
use crate::context::Context;
use crate::plugins::tolerations;

type Amounts = std::collections::BTreeMap<String, Quantity>;

const OTHER_OVERHEAD: &str =
    "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead";
const OWN_OVERHEAD: &str =
    "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead";

pub struct RuntimeClasses;

/// The class that the pod names, which must be there.
fn class_of(context: &Context<'_>) -> Result<Option<Arc<RuntimeClass>>, ApiError> {
    let spec = context.object_as::<Pod>().and_then(|it| it.spec.as_ref());
    let Some(name) = spec.and_then(|it| it.runtime_class_name.as_deref()) else {
        return Ok(None);
    };
    let found = context.lookup.get::<RuntimeClass>(&ObjectKey::cluster(name));
    let missing = || context.forbidden(&format!("pod rejected: RuntimeClass {name:?} not found"));
    found.ok_or_else(missing).map(Some)
}

/// Equal amounts, however they are written.
fn is_same(one: &Amounts, other: &Amounts) -> bool {
    let amount = |it: &Quantity| Amount::parse(&it.0).ok();
    one.len() == other.len()
        && one.iter().all(|(name, it)| other.get(name).is_some_and(|o| amount(it) == amount(o)))
}

fn fixed(class: &RuntimeClass) -> Option<Amounts> {
    class.overhead.as_ref().map(|it| it.pod_fixed.clone().unwrap_or_default())
}

fn fill(spec: &mut PodSpec, class: &RuntimeClass) -> Result<(), String> {
    if let Some(overhead) = fixed(class) {
        let own = spec.overhead.take().unwrap_or_default();
        if !own.is_empty() && !is_same(&own, &overhead) {
            return Err(OTHER_OVERHEAD.to_owned());
        }
        spec.overhead = (!overhead.is_empty()).then_some(overhead);
    }
    let Some(scheduling) = &class.scheduling else { return Ok(()) };
    for (key, value) in scheduling.node_selector.iter().flatten() {
        let selector = spec.node_selector.get_or_insert_default();
        match selector.get(key) {
            Some(own) if own != value => {
                return Err(format!(
                    "conflict: runtimeClass.scheduling.nodeSelector[{key}] = {value}; pod.spec.nodeSelector[{key}] = {own}"
                ));
            }
            _ => selector.insert(key.clone(), value.clone()),
        };
    }
    let own = spec.tolerations.take().unwrap_or_default();
    let of_class = scheduling.tolerations.clone().unwrap_or_default();
    let merged = tolerations::merge(own, of_class);
    spec.tolerations = (!merged.is_empty()).then_some(merged);
    Ok(())
}

fn admit(context: &mut Context<'_>) -> Result<(), ApiError> {
    let Some(class) = class_of(context)? else { return Ok(()) };
    let Some(spec) = context.object_as_mut::<Pod>().and_then(|it| it.spec.as_mut()) else {
        return Ok(());
    };
    fill(spec, &class).map_err(|why| context.forbidden(&why))
}

fn validate(context: &Context<'_>) -> Result<(), ApiError> {
    let class = class_of(context)?;
    let spec = context.object_as::<Pod>().and_then(|it| it.spec.as_ref());
    let own = spec.and_then(|it| it.overhead.as_ref()).filter(|it| !it.is_empty());
    match (class.as_deref().and_then(fixed), own) {
        (Some(overhead), own) => {
            let is_right = is_same(&overhead, own.unwrap_or(&Amounts::new()));
            if is_right { Ok(()) } else { Err(context.forbidden(OTHER_OVERHEAD)) }
        }
        (None, Some(_)) => Err(context.forbidden(OWN_OVERHEAD)),
        (None, None) => Ok(()),
    }
}

impl Plugin for RuntimeClasses {
    fn name(&self) -> &'static str {
        "RuntimeClass"
    }

    fn handles(&self, _phase: Phase, request: &Attributes<'_>) -> bool {
        request.operation == Operation::Create && request.is("", "pods", "")
    }

    fn admit<'a>(&'a self, context: &'a mut Context<'_>) -> Admitting<'a> {
        Box::pin(ready(admit(context)))
    }

    fn validate<'a>(&'a self, context: &'a Context<'_>) -> Validating<'a> {
        Box::pin(ready(validate(context).map(|()| None)))
    }
}
