//! What a pod's status says about its size: what each container is held to, and how far a resize
//! is. Words and their rules as upstream's (pkg/kubelet/kubelet_pods.go, status_manager.go).

use std::collections::BTreeMap;

use api::core::pod::resize::{IN_PROGRESS, PENDING};
use apimachinery::quantity::{Amount, Family};
use k8s_openapi::api::core::v1::{PodCondition, PodStatus, ResourceRequirements};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use node_api::containers::{Container as Run, ContainerState};

use super::seconds;
use crate::allocation::Size;
use crate::pod_worker::{View, Wanted, resize};

/// Below these, in thousandths of a processor, the kernel knows no difference: what the pod says is
/// shown.
const CPU_REQUEST_MIN: i64 = 2;
const CPU_LIMIT_MIN: i64 = 10;

/// What a container is held to; one that does not run, what it will be.
pub(super) fn of_run(view: &View, wanted: &Wanted, run: &Run) -> ResourceRequirements {
    let mut resources = wanted.container.resources.clone().unwrap_or_default();
    if !matches!(run.state, ContainerState::Running { .. }) {
        return resources;
    }
    let actual = resize::actual(view, wanted, run);
    if let Some(limits) = &mut resources.limits {
        put_cpu(limits, actual.cpu_limit, CPU_LIMIT_MIN);
        put(limits, "memory", Amount::new(actual.memory_limit), Family::Binary);
    }
    if let Some(requests) = &mut resources.requests {
        put_cpu(requests, actual.cpu_request, CPU_REQUEST_MIN);
        put(requests, "memory", Amount::new(actual.memory_request), Family::Binary);
    }
    resources
}

fn amount(quantities: &BTreeMap<String, Quantity>, name: &str) -> Amount {
    let quantity = quantities.get(name).and_then(|it| Amount::parse(&it.0).ok());
    quantity.unwrap_or(Amount::ZERO)
}

fn put_cpu(quantities: &mut BTreeMap<String, Quantity>, millis: i64, least: i64) {
    if millis > least || amount(quantities, "cpu").millis() > least {
        put(quantities, "cpu", Amount::from_millis(millis), Family::Decimal);
    }
}

/// As the pod writes it, if it is that much. Nothing is what nobody knows.
fn put(quantities: &mut BTreeMap<String, Quantity>, name: &str, is: Amount, family: Family) {
    if !is.is_zero() && amount(quantities, name) != is {
        quantities.insert(name.to_owned(), Quantity(is.render(family)));
    }
}

/// What the pod as a whole was given and is held to, if it asks for that.
fn set_whole(view: &View, status: &mut PodStatus) {
    let Some(own) = &view.spec().resources else { return };
    let mut given = own.requests.clone().unwrap_or_default();
    for (name, total) in api::core::pod::requests(view.spec()) {
        match name.as_str() {
            "cpu" => put(&mut given, "cpu", Amount::from_millis(total), Family::Decimal),
            _ => put(&mut given, &name, Amount::new(total), Family::Binary),
        }
    }
    let mut actual = own.clone();
    let requests = actual.requests.get_or_insert_default();
    requests.extend(given.clone());
    if let Some(cgroup) = &view.memory.cgroup {
        let held = Size::in_force(cgroup, 0);
        put_cpu(requests, held.cpu_request, CPU_REQUEST_MIN);
        if let Some(limits) = &mut actual.limits {
            put_cpu(limits, held.cpu_limit, CPU_LIMIT_MIN);
            put(limits, "memory", Amount::new(held.memory_limit), Family::Binary);
        }
    }
    status.allocated_resources = Some(given);
    status.resources = Some(actual);
}

/// The two conditions, or none of them.
pub(super) fn set(view: &View, status: &mut PodStatus) {
    set_whole(view, status);
    let is_over = matches!(status.phase.as_deref(), Some("Succeeded" | "Failed"));
    let pending = view.pending.as_ref().filter(|_| !is_over);
    let said = pending.map(|it| Said {
        reason: Some(it.reason),
        message: Some(it.message.clone()),
        generation: it.generation,
    });
    set_one(view, status, PENDING, said);
    let error = view.memory.resize_error.clone();
    let is_in_progress = !is_over && resize::is_in_progress(view);
    let said = is_in_progress.then(|| Said {
        reason: error.as_ref().map(|_| "Error"),
        message: error,
        generation: resize::generation(view),
    });
    set_one(view, status, IN_PROGRESS, said);
}

struct Said {
    reason: Option<&'static str>,
    message: Option<String>,
    generation: i64,
}

fn set_one(view: &View, status: &mut PodStatus, type_: &str, said: Option<Said>) {
    let conditions = status.conditions.get_or_insert_default();
    let index = conditions.iter().position(|it| it.type_ == type_);
    let Some(said) = said else {
        if let Some(index) = index {
            conditions.remove(index);
        }
        return;
    };
    let old = index.map(|it| conditions[it].clone());
    let reason = said.reason.map(str::to_owned);
    let now = Some(seconds(view.now));
    let since = old.as_ref().filter(|it| it.reason == reason);
    let mut condition = PodCondition {
        type_: type_.to_owned(),
        status: "True".to_owned(),
        last_transition_time: since
            .map_or_else(|| now.clone(), |it| it.last_transition_time.clone()),
        reason,
        message: said.message.filter(|it| !it.is_empty()),
        observed_generation: Some(said.generation).filter(|it| *it != 0),
        last_probe_time: old.as_ref().and_then(|it| it.last_probe_time.clone()),
    };
    if old.as_ref() != Some(&condition) {
        condition.last_probe_time = now;
    }
    match index {
        Some(index) => conditions[index] = condition,
        None => conditions.push(condition),
    }
}
