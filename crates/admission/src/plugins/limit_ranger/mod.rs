//! Containers that ask for nothing get what the LimitRanges of their namespace give; containers,
//! pods and claims that ask for too little or too much are refused.

mod constraints;
mod defaults;
#[cfg(test)]
mod tests;
mod totals;

use std::future::ready;

use api::amounts::{self, Amounts};
use api::core::limit_range::{CLAIM, CONTAINER, POD};
use api::core::{LimitRange, PersistentVolumeClaim, Pod};
use apimachinery::ApiError;
use k8s_openapi::api::core::v1::{Container, LimitRangeItem};

use crate::attributes::{Attributes, Operation};
use crate::chain::{Admitting, Phase, Plugin, Validating};
use crate::context::Context;
use constraints::Asked;

pub struct LimitRanger;

impl Plugin for LimitRanger {
    fn name(&self) -> &'static str {
        "LimitRanger"
    }

    /// The resources of a pod change by `resize` alone.
    fn handles(&self, phase: Phase, request: &Attributes<'_>) -> bool {
        let is_pod = match request.operation {
            Operation::Create => request.is("", "pods", ""),
            Operation::Update => request.is("", "pods", "resize"),
            Operation::Delete | Operation::Connect => return false,
        };
        let is_claim = request.is("", "persistentvolumeclaims", "");
        is_pod || (is_claim && phase == Phase::Validate)
    }

    fn admit<'a>(&'a self, context: &'a mut Context<'_>) -> Admitting<'a> {
        if !is_going(context) {
            for range in context.lookup.all::<LimitRange>(Some(context.request.namespace)) {
                give(context, &range);
            }
        }
        Box::pin(ready(Ok(())))
    }

    fn validate<'a>(&'a self, context: &'a Context<'_>) -> Validating<'a> {
        Box::pin(ready(validate(context).map(|()| None)))
    }
}

/// What is on its way out may still change, whatever it asks for.
fn is_going(context: &Context<'_>) -> bool {
    context.old().is_some_and(|it| it.object().meta().deletion_timestamp.is_some())
}

/// Changes the pod only if there is something to give.
fn give(context: &mut Context<'_>, range: &LimitRange) {
    let lacks = context.object_as::<Pod>().is_some_and(|it| defaults::is_lacking(it, range));
    if lacks && let Some(pod) = context.object_as_mut::<Pod>() {
        defaults::apply(pod, range);
    }
}

fn validate(context: &Context<'_>) -> Result<(), ApiError> {
    if is_going(context) {
        return Ok(());
    }
    for range in context.lookup.all::<LimitRange>(Some(context.request.namespace)) {
        let mut problems = Vec::new();
        for item in range.spec.iter().flat_map(|it| &it.limits) {
            if let Some(pod) = context.object_as::<Pod>() {
                validate_pod(pod, item, &mut problems);
            } else if let Some(claim) = context.object_as::<PersistentVolumeClaim>() {
                validate_claim(claim, item, &mut problems);
            }
        }
        if !problems.is_empty() {
            return Err(context.forbidden(&joined(problems)));
        }
    }
    Ok(())
}

/// `[a, b]`, or `a` alone; each once.
fn joined(mut problems: Vec<String>) -> String {
    let all = std::mem::take(&mut problems);
    for problem in all {
        if !problems.contains(&problem) {
            problems.push(problem);
        }
    }
    match problems.as_slice() {
        [only] => only.clone(),
        all => format!("[{}]", all.join(", ")),
    }
}

fn validate_pod(pod: &Pod, item: &LimitRangeItem, problems: &mut Vec<String>) {
    let Some(spec) = &pod.spec else { return };
    match item.type_.as_str() {
        CONTAINER => {
            let containers = spec.containers.iter().chain(spec.init_containers.iter().flatten());
            for container in containers {
                let asked = asked_by(container);
                constraints::min(item, &asked, problems);
                constraints::max(item, &asked, problems);
                constraints::ratio(item, &asked, problems);
            }
        }
        POD => {
            let asked = totals::asked_by(spec);
            constraints::min(item, &asked, problems);
            constraints::max(item, &asked, problems);
            constraints::ratio(item, &asked, problems);
        }
        _ => {}
    }
}

fn asked_by(container: &Container) -> Asked {
    let resources = container.resources.as_ref();
    Asked {
        requests: amounts::parse(resources.and_then(|it| it.requests.as_ref())),
        limits: amounts::parse(resources.and_then(|it| it.limits.as_ref())),
    }
}

fn validate_claim(
    claim: &PersistentVolumeClaim,
    item: &LimitRangeItem,
    problems: &mut Vec<String>,
) {
    if item.type_ != CLAIM {
        return;
    }
    let resources = claim.spec.as_ref().and_then(|it| it.resources.as_ref());
    let requests = amounts::parse(resources.and_then(|it| it.requests.as_ref()));
    let asked = Asked { requests, limits: Amounts::new() };
    constraints::min(item, &asked, problems);
    constraints::max_request(item, &asked, problems);
}
