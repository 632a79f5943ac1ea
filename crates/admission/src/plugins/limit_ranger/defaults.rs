//! What containers get that ask for nothing, and the note of it on the pod.

use std::collections::BTreeMap;

use api::core::limit_range::CONTAINER;
use api::core::{LimitRange, Pod};
use k8s_openapi::api::core::v1::{Container, PodSpec};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

const ANNOTATION: &str = "kubernetes.io/limit-ranger";

type List = BTreeMap<String, Quantity>;

/// What a LimitRange has for each container.
struct Gifts {
    requests: List,
    limits: List,
}

impl Gifts {
    fn of(range: &LimitRange) -> Self {
        let mut gifts = Self { requests: List::new(), limits: List::new() };
        let items = range.spec.iter().flat_map(|it| &it.limits);
        for item in items.filter(|it| it.type_ == CONTAINER) {
            gifts.requests.extend(item.default_request.clone().unwrap_or_default());
            gifts.limits.extend(item.default.clone().unwrap_or_default());
        }
        gifts
    }

    /// Says what it has given.
    fn give(&self, container: &mut Container, what: &str, notes: &mut Vec<String>) {
        let name = container.name.clone();
        let resources = container.resources.get_or_insert_default();
        let limits = add_absent(&mut resources.limits, &self.limits);
        let requests = add_absent(&mut resources.requests, &self.requests);
        for (given, kind) in [(requests, "request"), (limits, "limit")] {
            if !given.is_empty() {
                notes.push(format!("{} {kind} for {what} {name}", given.join(", ")));
            }
        }
    }

    fn is_lacking(&self, container: &Container) -> bool {
        let lacks = |list: Option<&List>, gifts: &List| {
            gifts.keys().any(|it| list.is_none_or(|list| !list.contains_key(it)))
        };
        let resources = container.resources.as_ref();
        lacks(resources.and_then(|it| it.limits.as_ref()), &self.limits)
            || lacks(resources.and_then(|it| it.requests.as_ref()), &self.requests)
    }
}

/// Sorted names of what was added.
fn add_absent(list: &mut Option<List>, gifts: &List) -> Vec<String> {
    let mut added = Vec::new();
    for (name, quantity) in gifts {
        if list.as_ref().is_none_or(|it| !it.contains_key(name)) {
            list.get_or_insert_default().insert(name.clone(), quantity.clone());
            added.push(name.clone());
        }
    }
    added
}

fn containers(spec: &PodSpec) -> impl Iterator<Item = &Container> {
    spec.containers.iter().chain(spec.init_containers.iter().flatten())
}

pub(super) fn is_lacking(pod: &Pod, range: &LimitRange) -> bool {
    let gifts = Gifts::of(range);
    pod.spec.as_ref().is_some_and(|it| containers(it).any(|it| gifts.is_lacking(it)))
}

pub(super) fn apply(pod: &mut Pod, range: &LimitRange) {
    let gifts = Gifts::of(range);
    let Some(spec) = &mut pod.spec else { return };
    let mut notes = Vec::new();
    for container in &mut spec.containers {
        gifts.give(container, "container", &mut notes);
    }
    for container in spec.init_containers.iter_mut().flatten() {
        gifts.give(container, "init container", &mut notes);
    }
    if !notes.is_empty() {
        let text = format!("LimitRanger plugin set: {}", notes.join("; "));
        pod.metadata.annotations.get_or_insert_default().insert(ANNOTATION.to_owned(), text);
    }
}
