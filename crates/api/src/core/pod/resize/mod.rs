//! A pod's resources change through `resize` alone: processor and memory of its containers, and of
//! the pod as a whole. Rules and texts as upstream's (`ValidatePodResize` in
//! pkg/apis/core/validation, `podResizeStrategy` in pkg/registry/core/pod).

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use apimachinery::FieldErrors;
use apimachinery::field::Path;
use apimachinery::quantity::Amount;
use k8s_openapi::api::core::v1::{Container, Pod, PodSpec, ResourceRequirements};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

use crate::core::pod_spec::{is_sidecar, qos_class, requests};
use crate::semantic;

type Quantities = BTreeMap<String, Quantity>;

/// Why a resize is not carried out, as the reason of [`PENDING`] says.
pub const DEFERRED: &str = "Deferred";
pub const INFEASIBLE: &str = "Infeasible";
/// The condition of a pod whose node has not agreed to a resize.
pub const PENDING: &str = "PodResizePending";
/// The condition of a pod whose node has agreed and is not done.
pub const IN_PROGRESS: &str = "PodResizeInProgress";
/// What may change.
const COMPUTE: [&str; 2] = ["cpu", "memory"];

/// Whether the pod's node has said that it can never do what is asked for.
pub fn is_infeasible(pod: &Pod) -> bool {
    let conditions = pod.status.iter().flat_map(|it| it.conditions.iter().flatten());
    let mut pending = conditions.filter(|it| it.type_ == PENDING);
    pending.any(|it| it.reason.as_deref() == Some(INFEASIBLE))
}

/// What a pod on a node takes of it: for each container the most of what is asked for, what its
/// node has agreed to and what is in force; what is asked for counts for nothing where the node can
/// never give it. `cpu` in thousandths, the rest in whole units.
pub fn held_requests(pod: &Pod) -> BTreeMap<String, i64> {
    let mut spec = pod.spec.clone().unwrap_or_default();
    let is_infeasible = is_infeasible(pod);
    if let Some(status) = &pod.status {
        let lists = [&status.container_statuses, &status.init_container_statuses];
        let statuses: Vec<_> = lists.into_iter().flatten().flatten().collect();
        let containers =
            spec.containers.iter_mut().chain(spec.init_containers.iter_mut().flatten());
        for container in containers {
            let Some(it) = statuses.iter().find(|it| it.name == container.name) else { continue };
            let allotted = [it.allocated_resources.as_ref(), requests_of(it.resources.as_ref())];
            raise(container.resources.get_or_insert_default(), allotted, is_infeasible);
        }
        if let Some(resources) = &mut spec.resources {
            let actual = requests_of(status.resources.as_ref());
            raise(resources, [status.allocated_resources.as_ref(), actual], is_infeasible);
        }
    }
    requests(&spec)
}

fn requests_of(resources: Option<&ResourceRequirements>) -> Option<&Quantities> {
    resources.and_then(|it| it.requests.as_ref())
}

fn raise(
    resources: &mut ResourceRequirements,
    allotted: [Option<&Quantities>; 2],
    is_infeasible: bool,
) {
    if is_infeasible && allotted.iter().any(Option::is_some) {
        resources.requests = None;
    }
    let requests = resources.requests.get_or_insert_default();
    for (name, quantity) in allotted.into_iter().flatten().flatten() {
        let amount = |it: &Quantity| Amount::parse(&it.0).unwrap_or(Amount::ZERO);
        let most = requests.entry(name.clone()).or_insert_with(|| quantity.clone());
        if amount(quantity) > amount(most) {
            most.clone_from(quantity);
        }
    }
}

/// Puts back what is no part of a resize. Containers that came, went or moved stay as they were
/// sent, for the validation to name them.
pub(super) fn restore(pod: &mut Pod, stored: &Pod) {
    let wanted = pod.spec.take().unwrap_or_default();
    let old = stored.spec.clone().unwrap_or_default();
    let n_init = |it: &PodSpec| it.init_containers.as_ref().map_or(0, Vec::len);
    if wanted.containers.len() != old.containers.len() || n_init(&wanted) != n_init(&old) {
        pod.spec = Some(wanted);
        return;
    }
    let init =
        wanted.init_containers.map(|it| restore_containers(it, old.init_containers.as_deref()));
    pod.spec = Some(PodSpec {
        containers: restore_containers(wanted.containers, Some(&old.containers)),
        init_containers: init.or_else(|| old.init_containers.clone()),
        resources: wanted.resources,
        ..old
    });
}

fn restore_containers(wanted: Vec<Container>, old: Option<&[Container]>) -> Vec<Container> {
    let old = old.unwrap_or_default();
    if wanted.iter().zip(old).any(|(new, old)| new.name != old.name) {
        return wanted;
    }
    let restored = wanted.into_iter().zip(old).map(|(new, old)| Container {
        resources: new.resources,
        resize_policy: new.resize_policy,
        ..old.clone()
    });
    restored.collect()
}

pub(super) fn validate(pod: &Pod, stored: &Pod, errors: &mut FieldErrors) {
    let absent = PodSpec::default();
    let (spec, old) =
        (pod.spec.as_ref().unwrap_or(&absent), stored.spec.as_ref().unwrap_or(&absent));
    let n_problems = errors.iter().count();
    validate_pod(pod, stored, spec, errors);
    let mut rest = spec.clone();
    if is_sized(spec.resources.as_ref()) || is_sized(old.resources.as_ref()) {
        validate_pod_level(&mut rest, spec, old, errors);
    }
    if !validate_order(spec, old, errors) {
        return;
    }
    validate_containers(&mut rest, old, errors);
    if errors.iter().count() == n_problems && !semantic::equal(&rest, old) {
        errors.forbidden(&Path::new("spec"), "only cpu and memory resources are mutable");
    }
}

fn validate_pod(pod: &Pod, stored: &Pod, spec: &PodSpec, errors: &mut FieldErrors) {
    let path = Path::new("spec");
    let class = |it: &Pod| it.status.as_ref().and_then(|it| it.qos_class.clone());
    let absent = PodSpec::default();
    let old = class(stored)
        .unwrap_or_else(|| qos_class(stored.spec.as_ref().unwrap_or(&absent)).to_owned());
    if old != qos_class(spec) {
        let detail = "Pod QOS Class may not change as a result of resizing";
        errors.invalid(&path, class(pod).unwrap_or_default(), detail);
    }
    let statuses = || stored.status.iter().flat_map(|it| it.container_statuses.iter().flatten());
    let is_running = |it: &&_| {
        let it: &k8s_openapi::api::core::v1::ContainerStatus = it;
        it.state.as_ref().is_some_and(|it| it.running.is_some())
    };
    if statuses().find(is_running).is_some_and(|it| it.resources.is_none()) {
        errors.forbidden(&path, "Pod running on node without support for resize");
    }
    let claims = stored.status.as_ref();
    let claims = claims.and_then(|it| it.node_allocatable_resource_claim_statuses.as_ref());
    if claims.is_some_and(|it| !it.is_empty()) {
        errors.forbidden(&path, "pods with node allocatable resource claims cannot be resized");
    }
}

fn is_sized(resources: Option<&ResourceRequirements>) -> bool {
    let is_set = |it: &Option<Quantities>| it.as_ref().is_some_and(|it| !it.is_empty());
    resources.is_some_and(|it| is_set(&it.requests) || is_set(&it.limits))
}

/// Leaves in `rest` what may not change.
fn validate_pod_level(rest: &mut PodSpec, spec: &PodSpec, old: &PodSpec, errors: &mut FieldErrors) {
    let path = Path::new("spec");
    let of_pod = path.child("resources");
    let Some(new) = &spec.resources else {
        return errors.forbidden(&of_pod, "pod-level resources cannot be removed");
    };
    let absent = ResourceRequirements::default();
    let before = old.resources.as_ref().unwrap_or(&absent);
    if is_removed(new.requests.as_ref(), before.requests.as_ref()) {
        let detail = "pod-level resource requests cannot be removed";
        errors.forbidden(&of_pod.child("requests"), detail);
    }
    if is_removed(new.limits.as_ref(), before.limits.as_ref()) {
        let detail = "pod-level resource limits cannot be removed";
        errors.forbidden(&of_pod.child("limits"), detail);
    }
    let kept = ResourceRequirements { claims: new.claims.clone(), ..without_compute(new, before) };
    let is_nothing = old.resources.is_none() && kept == absent;
    rest.resources = Some(kept).filter(|_| !is_nothing);
    if !same_resources(rest.resources.as_ref(), old.resources.as_ref()) {
        errors.forbidden(&path, "only cpu and memory resources are mutable at pod-level");
    }
}

/// Whether containers are those that were there, in the same order.
fn validate_order(spec: &PodSpec, old: &PodSpec, errors: &mut FieldErrors) -> bool {
    let n_problems = errors.iter().count();
    let lists = [
        ("containers", spec.containers.as_slice(), old.containers.as_slice()),
        (
            "initContainers",
            spec.init_containers.as_deref().unwrap_or_default(),
            old.init_containers.as_deref().unwrap_or_default(),
        ),
    ];
    for (list, new, old) in lists {
        let path = Path::new("spec").child(list);
        if new.len() != old.len() {
            errors.forbidden(&path, &format!("{list} may not be added or removed on resize"));
            continue;
        }
        for (index, (new, old)) in new.iter().zip(old).enumerate() {
            if new.name != old.name {
                let detail = format!("{list} may not be renamed or reordered on resize");
                errors.forbidden(&path.index(index).child("name"), &detail);
            }
        }
    }
    errors.iter().count() == n_problems
}

/// Leaves in `rest` what may not change.
fn validate_containers(rest: &mut PodSpec, old: &PodSpec, errors: &mut FieldErrors) {
    let path = Path::new("spec");
    let init = rest.init_containers.iter().flatten().zip(old.init_containers.iter().flatten());
    for (index, (new, old)) in init.enumerate() {
        validate_removal(new, old, &path.child("initContainers").index(index), errors);
    }
    for (index, (new, old)) in rest.containers.iter().zip(&old.containers).enumerate() {
        validate_removal(new, old, &path.child("containers").index(index), errors);
    }
    for (container, old) in rest.containers.iter_mut().zip(&old.containers) {
        put_back_compute(container, old);
        if !semantic::equal(container, old) {
            errors.forbidden(&path, "only cpu and memory resources are mutable");
        }
    }
    let init = rest.init_containers.iter_mut().flatten();
    for (index, (container, old)) in init.zip(old.init_containers.iter().flatten()).enumerate() {
        let path = path.child("initContainers").index(index);
        let is_changed = !semantic::equal(container, old);
        put_back_compute(container, old);
        if !semantic::equal(container, old) {
            let detail = "only cpu and memory resources for init or sidecar containers are mutable";
            errors.forbidden(&path, detail);
        }
        let policies = container.resize_policy.iter().flatten();
        let is_restarting = policies.filter(|it| it.restart_policy == "RestartContainer").count();
        for _ in 0..is_restarting {
            if is_changed && !is_sidecar(container) {
                let detail = "non-sidecar init containers with a resize policy of RestartContainer cannot be resized";
                errors.forbidden(&path, detail);
            }
        }
    }
}

fn validate_removal(new: &Container, old: &Container, path: &Path, errors: &mut FieldErrors) {
    let absent = ResourceRequirements::default();
    let new = new.resources.as_ref().unwrap_or(&absent);
    let old = old.resources.as_ref().unwrap_or(&absent);
    let path = path.child("resources");
    if is_removed(new.requests.as_ref(), old.requests.as_ref()) {
        errors.forbidden(&path.child("requests"), "resource requests cannot be removed");
    }
    if is_removed(new.limits.as_ref(), old.limits.as_ref()) {
        errors.forbidden(&path.child("limits"), "resource limits cannot be removed");
    }
}

fn is_removed(new: Option<&Quantities>, old: Option<&Quantities>) -> bool {
    let mut names = old.into_iter().flat_map(BTreeMap::keys);
    names.any(|it| !new.is_some_and(|new| new.contains_key(it)))
}

fn put_back_compute(container: &mut Container, old: &Container) {
    let absent = ResourceRequirements::default();
    let new = container.resources.as_ref().unwrap_or(&absent);
    let kept = without_compute(new, old.resources.as_ref().unwrap_or(&absent));
    container.resources = Some(kept).filter(|it| *it != absent || old.resources.is_some());
}

/// As it would be if processor and memory had not changed. Claims are left out: pods that have any
/// are not resized.
fn without_compute(new: &ResourceRequirements, old: &ResourceRequirements) -> ResourceRequirements {
    let kept = |new: &Option<Quantities>, old: &Option<Quantities>| {
        let mut kept = new.clone().unwrap_or_default();
        for name in COMPUTE {
            match old.as_ref().and_then(|it| it.get(name)) {
                Some(before) => drop(kept.insert(name.to_owned(), before.clone())),
                None => drop(kept.remove(name)),
            }
        }
        Some(kept).filter(|it| !it.is_empty() || old.is_some())
    };
    ResourceRequirements {
        limits: kept(&new.limits, &old.limits),
        requests: kept(&new.requests, &old.requests),
        claims: None,
    }
}

fn same_resources(
    left: Option<&ResourceRequirements>,
    right: Option<&ResourceRequirements>,
) -> bool {
    let of = |it: Option<&ResourceRequirements>| Container {
        resources: it.cloned(),
        ..Container::default()
    };
    semantic::equal(&of(left), &of(right))
}
