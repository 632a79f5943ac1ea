//! Which containers of a pod get another size, and how: as they run, or by another run; and what
//! the pod's cgroup has to hold meanwhile. Pure.

#[cfg(test)]
mod tests;

use api::core::pod::resize::IN_PROGRESS;
use k8s_openapi::api::core::v1::{Container, Pod};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use node_api::containers::{Container as Run, Resources};

use super::memory::Memory;
use super::operations::{Change, RecordAllocation, ResizePod, TellResized};
use super::step::Step;
use super::view::{Role, View, Wanted, is_running};
use crate::allocation::{ANNOTATION_SIZE, Size};
use crate::container_config::of_pod;

/// A container that runs with another size than it should.
struct Differing<'a> {
    wanted: Wanted,
    run: &'a Run,
    from: Size,
    to: Size,
}

/// What the run was told last.
pub(crate) fn told(view: &View, wanted: &Wanted, run: &Run) -> Size {
    if let Some(size) = view.memory.resized.get(&run.id) {
        return *size;
    }
    if let Some(size) = run.config.annotations.get(ANNOTATION_SIZE).and_then(|it| Size::parse(it)) {
        return size;
    }
    // Made by a version that did not write it down.
    let to = Size::of(&view.pod, &wanted.container);
    let resources = &run.config.resources;
    let is_same = to.resources(resources) == *resources;
    if is_same { to } else { Size::in_force(resources, to.memory_request) }
}

/// What the kernel was found to hold the run to.
pub(crate) fn actual(view: &View, wanted: &Wanted, run: &Run) -> Size {
    view.memory.actual.get(&run.id).copied().unwrap_or_else(|| told(view, wanted, run))
}

fn differing(view: &View) -> Vec<Differing<'_>> {
    let all = view.wanted().into_iter().filter(|it| it.role != Role::Ephemeral);
    all.filter_map(|wanted| {
        let run = view.current(wanted.name()).filter(|it| is_running(it))?;
        let (from, to) = (told(view, &wanted, run), Size::of(&view.pod, &wanted.container));
        (from != to).then_some(Differing { wanted, run, from, to })
    })
    .collect()
}

impl Differing<'_> {
    fn needs_restart(&self) -> bool {
        let policies = self.wanted.container.resize_policy.iter().flatten();
        policies.filter(|it| it.restart_policy == "RestartContainer").any(|it| {
            match it.resource_name.as_str() {
                "cpu" => !self.from.has_same_cpu(&self.to),
                "memory" => !self.from.has_same_memory(&self.to),
                _ => false,
            }
        })
    }
}

/// Whether this run has to make room for one of the right size.
pub(super) fn needs_restart(view: &View, run: &Run) -> bool {
    differing(view).iter().any(|it| it.run.id == run.id && it.needs_restart())
}

/// For a pod's cgroup that may have been given any of the sizes that are known: it holds nobody
/// back.
pub(super) fn widest(view: &View) -> Resources {
    with_largest(view, &differing(view))
}

/// What the pod's cgroup should have now. Runs that end for their size have what they had until
/// then.
fn target(view: &View) -> Resources {
    let mut ending = differing(view);
    ending.retain(Differing::needs_restart);
    with_largest(view, &ending)
}

/// What the pod's cgroup has to hold, with these containers at the larger of their sizes.
fn with_largest(view: &View, containers: &[Differing<'_>]) -> Resources {
    if containers.is_empty() {
        return of_pod(&view.pod);
    }
    let sizes = containers.iter().map(|it| (it.wanted.name(), it.from.largest(&it.to)));
    of_pod(&resized(view, sizes))
}

/// The pod with some of its containers in other sizes.
fn resized<'a>(view: &View, sizes: impl Iterator<Item = (&'a str, Size)>) -> Pod {
    let mut pod = Pod::clone(&view.pod);
    let spec = pod.spec.get_or_insert_default();
    for (name, size) in sizes {
        let mut containers =
            spec.containers.iter_mut().chain(spec.init_containers.iter_mut().flatten());
        if let Some(container) = containers.find(|it| it.name == name) {
            put(container, &size);
        }
    }
    pod
}

fn put(container: &mut Container, size: &Size) {
    let resources = container.resources.get_or_insert_default();
    let lists = [
        (&mut resources.requests, [("cpu", size.cpu_request), ("memory", size.memory_request)]),
        (&mut resources.limits, [("cpu", size.cpu_limit), ("memory", size.memory_limit)]),
    ];
    for (list, amounts) in lists {
        let list = list.get_or_insert_default();
        for (name, amount) in amounts {
            let unit = if name == "cpu" { "m" } else { "" };
            match amount {
                0 => drop(list.remove(name)),
                _ => drop(list.insert(name.to_owned(), Quantity(format!("{amount}{unit}")))),
            }
        }
    }
}

/// What was agreed to is written down, containers and cgroup are made to fit, and when all do, that
/// is told.
pub(super) fn plan(view: &View, step: &mut Step) {
    record(view, step);
    let Some(current) = view.memory.cgroup.clone() else { return };
    let (target, differing) = (target(view), differing(view));
    let live = differing.into_iter().filter(|it| !it.needs_restart());
    let containers: Vec<Change> = live
        .map(|it| Change {
            id: it.run.id.clone(),
            name: it.wanted.name().to_owned(),
            from: it.from,
            to: it.to,
            others: it.run.config.resources.clone(),
        })
        .collect();
    if target != current || !containers.is_empty() {
        let known = view.memory.resized.iter();
        let known = known.filter(|(id, _)| view.runs.iter().any(|it| it.id == **id));
        let resized = known.map(|(id, size)| (id.clone(), *size)).collect();
        let failed = view.memory.resize_error.clone();
        let generation = generation(view);
        let pod = Box::new((current, target));
        step.ask(view, ResizePod { pod, containers, resized, failed, generation });
    }
    if let Some(generation) = view.memory.resizing.filter(|_| !is_in_progress(view)) {
        step.ask(view, TellResized { generation });
    }
}

/// Before anything of the pod is made, and before anything of it changes.
pub(super) fn record(view: &View, step: &mut Step) {
    let is_resize = view.granted != view.allocation;
    if !view.memory.is_recorded || is_resize {
        let allocation = view.granted.clone();
        let known = view.memory.resized.iter();
        let resized = known.map(|(id, size)| (id.clone(), *size)).collect();
        step.ask(view, RecordAllocation { allocation, resized, is_resize });
    }
}

/// Whether something may still write into the pod's folder.
pub(super) fn is_writing(view: &View) -> bool {
    view.memory.is_under_way::<RecordAllocation>() || view.memory.is_under_way::<ResizePod>()
}

/// Whether the node has agreed to a size that is not in force yet.
pub(crate) fn is_in_progress(view: &View) -> bool {
    let is_cgroup_other = view.memory.cgroup.as_ref().is_some_and(|it| *it != target(view));
    view.granted != view.allocation || !differing(view).is_empty() || is_cgroup_other
}

/// Whether the pod's cgroup has to grow before a container starts in it.
pub(super) fn has_to_grow(view: &View) -> bool {
    let Some(current) = &view.memory.cgroup else { return true };
    let target = target(view);
    let quota = |it: &Resources| it.cpu_quota.map(|it| it.quota);
    is_less(quota(current), quota(&target)) || is_less(current.memory_limit, target.memory_limit)
}

/// `None` is no limit.
pub(super) fn is_less<T: PartialOrd>(one: Option<T>, other: Option<T>) -> bool {
    match (one, other) {
        (Some(one), Some(other)) => one < other,
        (Some(_), None) => true,
        (None, _) => false,
    }
}

/// Of the pod that the resize under way is for.
pub(crate) fn generation(view: &View) -> i64 {
    view.memory.resizing.unwrap_or(view.granted.generation)
}

/// What a kubelet before this one was about, from what it has told.
pub(super) fn recall(pod: &Pod, memory: &mut Memory) {
    let conditions = pod.status.iter().flat_map(|it| it.conditions.iter().flatten());
    if let Some(it) = conditions.into_iter().find(|it| it.type_ == IN_PROGRESS) {
        memory.resizing = Some(it.observed_generation.unwrap_or(0));
        let is_error = it.reason.as_deref() == Some("Error");
        memory.resize_error = it.message.clone().filter(|_| is_error);
    }
}
