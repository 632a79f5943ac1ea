//! Pods: what they hold of their nodes until they have ended, and that they are there.

use std::collections::{BTreeMap, BTreeSet};

use apimachinery::GroupResource;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{Container, ContainerStatus, Pod, PodSpec, ResourceRequirements};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

use super::{devices, one};
use crate::amounts::{self, Amounts, add, raise};
use crate::core::pod::resize;
use crate::core::pod_spec::{is_sidecar, peak};
use crate::core::resource_names::{REQUESTS, is_extended, is_huge_pages, is_native};

/// What has a name for requests, one for limits and one without either, which means requests.
const COMPUTE: [&str; 3] = ["cpu", "memory", "ephemeral-storage"];

/// What each container must say where a quota bounds it.
const REQUIRED: [&str; 6] =
    ["cpu", "limits.cpu", "limits.memory", "memory", "requests.cpu", "requests.memory"];

type Quantities = BTreeMap<String, Quantity>;

fn without_side(name: &str) -> &str {
    name.strip_prefix(REQUESTS).or_else(|| name.strip_prefix("limits.")).unwrap_or(name)
}

pub(super) fn counts(name: &str) -> bool {
    let of_others = name.starts_with(REQUESTS)
        && (!is_native(name) || name[REQUESTS.len()..].starts_with(devices::IMPLICIT));
    name == "pods"
        || COMPUTE.contains(&without_side(name))
        || is_huge_pages(name.strip_prefix(REQUESTS).unwrap_or(name))
        || of_others
}

/// When a pod that is being deleted stops to count, though it may still be there, as on a node that
/// is lost.
pub fn counts_until(pod: &Pod) -> Option<Timestamp> {
    let deleted = pod.metadata.deletion_timestamp.as_ref()?.0;
    let grace = SignedDuration::from_secs(pod.metadata.deletion_grace_period_seconds?);
    // The timestamp is when the grace ends; upstream adds it once more.
    Some(deleted.checked_add(grace).unwrap_or(Timestamp::MAX))
}

/// Whether it counts as running: it has not ended, and is not stuck on its way out either.
pub fn is_alive(pod: &Pod, now: Timestamp) -> bool {
    let phase = pod.status.as_ref().and_then(|it| it.phase.as_deref());
    let is_over = matches!(phase, Some("Failed" | "Succeeded"));
    !is_over && counts_until(pod).is_none_or(|it| now <= it)
}

/// The number of all pods counts those that have ended, too.
pub(super) fn usage(pod: &Pod, now: Timestamp) -> Amounts {
    let mut usage = Amounts::from([(super::count_name(&GroupResource::new("", "pods")), one())]);
    if is_alive(pod, now) {
        usage.insert("pods".to_owned(), one());
        name_sides(&mut usage, &requests(pod), &limits(pod));
    }
    usage
}

/// By the names that quotas have for them.
fn name_sides(usage: &mut Amounts, requests: &Amounts, limits: &Amounts) {
    for (name, amount) in requests {
        let is_plain = COMPUTE.contains(&name.as_str()) || is_huge_pages(name);
        if is_plain {
            usage.insert(name.clone(), *amount);
        }
        if is_plain || is_extended(name) || name.starts_with(devices::IMPLICIT) {
            usage.insert(format!("{REQUESTS}{name}"), *amount);
        }
    }
    for (name, amount) in limits.iter().filter(|it| COMPUTE.contains(&it.0.as_str())) {
        usage.insert(format!("limits.{name}"), *amount);
    }
}

/// What a container was given, if its node has said. Init containers that end are not resized.
fn status_of<'a>(pod: &'a Pod, container: &Container) -> Option<&'a ContainerStatus> {
    let (status, spec) = (pod.status.as_ref()?, pod.spec.as_ref()?);
    let lists = [&status.container_statuses, &status.init_container_statuses];
    let found = lists.into_iter().flatten().flatten().find(|it| it.name == container.name);
    let is_init = spec.init_containers.iter().flatten().any(|it| it.name == container.name);
    found.filter(|_| !is_init || is_sidecar(container))
}

fn list(
    resources: Option<&ResourceRequirements>,
    of: fn(&ResourceRequirements) -> Option<&Quantities>,
) -> Option<&Quantities> {
    resources.and_then(of)
}

fn requests_in(resources: &ResourceRequirements) -> Option<&Quantities> {
    resources.requests.as_ref()
}

fn limits_in(resources: &ResourceRequirements) -> Option<&Quantities> {
    resources.limits.as_ref()
}

/// Of a container that is being resized the most of what is asked for, agreed to and in force.
fn requests(pod: &Pod) -> Amounts {
    let Some(spec) = &pod.spec else { return Amounts::new() };
    let is_infeasible = resize::is_infeasible(pod);
    let mut total = peak(spec, |container| {
        let asked = amounts::parse(list(container.resources.as_ref(), requests_in));
        let status = status_of(pod, container);
        let Some(actual) = status.and_then(|it| it.resources.as_ref()) else { return asked };
        let mut held = if is_infeasible { Amounts::new() } else { asked };
        raise(&mut held, &amounts::parse(actual.requests.as_ref()));
        let allocated = status.and_then(|it| it.allocated_resources.as_ref());
        raise(&mut held, &amounts::parse(allocated));
        held
    });
    total.extend(of_pod(spec, requests_in));
    add(&mut total, &amounts::parse(spec.overhead.as_ref()));
    total
}

fn limits(pod: &Pod) -> Amounts {
    let Some(spec) = &pod.spec else { return Amounts::new() };
    let is_infeasible = resize::is_infeasible(pod);
    let mut total = peak(spec, |container| {
        let asked = amounts::parse(list(container.resources.as_ref(), limits_in));
        let status = status_of(pod, container);
        let Some(actual) = status.and_then(|it| it.resources.as_ref()) else { return asked };
        let mut held = if is_infeasible { Amounts::new() } else { asked };
        raise(&mut held, &amounts::parse(actual.limits.as_ref()));
        held
    });
    total.extend(of_pod(spec, limits_in));
    // What has no limit has none with its overhead, either.
    for (name, overhead) in amounts::parse(spec.overhead.as_ref()) {
        if let Some(limit) = total.get_mut(&name).filter(|it| !it.amount.is_zero()) {
            *limit = limit.plus(overhead);
        }
    }
    total
}

fn is_of_pods(name: &str) -> bool {
    matches!(name, "cpu" | "memory") || is_huge_pages(name)
}

/// What the pod says for all of its containers replaces what they say.
fn of_pod(spec: &PodSpec, of: fn(&ResourceRequirements) -> Option<&Quantities>) -> Amounts {
    let mut said = amounts::parse(list(spec.resources.as_ref(), of));
    said.retain(|name, _| is_of_pods(name));
    said
}

/// What of `bounded` containers do not say though they must: `must specify cpu for: a,b`. Where
/// cpu or memory is bounded each container must say how much it wants, unless the pod does.
pub fn unspecified<'a>(pod: &Pod, bounded: impl Iterator<Item = &'a str>) -> Option<String> {
    let spec = pod.spec.as_ref()?;
    let sides = [requests_in, limits_in];
    if sides.iter().any(|it| !of_pod(spec, *it).is_empty()) {
        return None;
    }
    let required: BTreeSet<&str> = bounded.filter(|it| REQUIRED.contains(it)).collect();
    let containers = || spec.containers.iter().chain(spec.init_containers.iter().flatten());
    let mut missing = Vec::new();
    for name in required {
        let lacks = |it: &&Container| !is_said(it, name);
        let lacking: BTreeSet<&str> =
            containers().filter(lacks).map(|it| it.name.as_str()).collect();
        if !lacking.is_empty() {
            let lacking: Vec<&str> = lacking.into_iter().collect();
            missing.push(format!("{name} for: {}", lacking.join(",")));
        }
    }
    (!missing.is_empty()).then(|| format!("must specify {}", missing.join("; ")))
}

fn is_said(container: &Container, name: &str) -> bool {
    let side = if name.starts_with("limits.") { limits_in } else { requests_in };
    list(container.resources.as_ref(), side).is_some_and(|it| it.contains_key(without_side(name)))
}

/// Whether it ends by itself after a while.
pub fn is_terminating(pod: &Pod) -> bool {
    let deadline = pod.spec.as_ref().and_then(|it| it.active_deadline_seconds);
    deadline.is_some_and(|it| it >= 0)
}
