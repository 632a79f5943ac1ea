//! The status of a StatefulSet, from its pods. Pure.

use std::collections::BTreeSet;
use std::time::Duration;

use api::Identified as _;
use api::core::pod::PodView;
use k8s_openapi::api::apps::v1::StatefulSetStatus;

use super::identity::REVISION;
use super::plan::{Observed, Plan, Terms, Then, explain};
use crate::{conditions, owners, pods};

pub(super) fn plan(observed: &Observed<'_>, plan: &Plan) -> StatefulSetStatus {
    let set = &*observed.set;
    let terms = Terms::of(set);
    let stored = set.status.clone().unwrap_or_default();
    let name = |it: &api::apps::ControllerRevision| owners::name(&it.metadata).to_owned();
    let (current, update) = (name(&observed.current), name(&observed.update));
    let count = |is: &dyn Fn(&PodView) -> bool| {
        let count = observed.pods.iter().filter(|it| is(it)).count();
        i32::try_from(count).unwrap_or(i32::MAX)
    };
    let is_ready = |it: &PodView| it.phase.as_str() == "Running" && it.is_ready;
    let is_available = |it: &PodView| {
        let left = pods::available_in(it, terms.min_ready, observed.now);
        is_ready(it) && left == Some(Duration::ZERO)
    };
    // Those that an update deletes now are not of their template any more.
    let replaced = plan.tasks.iter().filter_map(|it| match &it.then {
        Then::Delete(pod) if !pod.is_terminal() => Some(pod.uid()),
        _ => None,
    });
    let replaced: BTreeSet<&str> = replaced.collect();
    let is_going = |it: &PodView| it.is_deleting() || replaced.contains(it.uid());
    let of = |revision: &str| count(&|it| !is_going(it) && it.label(REVISION) == Some(revision));
    let (replicas, ready) = (count(&|_| true), count(&is_ready));
    let (mut current_replicas, updated) = (of(&current), of(&update));
    let mut current_revision = current;
    let wanted = i32::try_from(terms.end - terms.first).unwrap_or(i32::MAX);
    let is_over = updated == wanted && ready == wanted && replicas == wanted;
    if !terms.is_on_delete && is_over {
        (current_replicas, current_revision) = (updated, update.clone());
    }
    let some = |it: i32| Some(it).filter(|it| *it != 0);
    StatefulSetStatus {
        replicas,
        ready_replicas: some(ready),
        available_replicas: Some(count(&is_available)),
        current_replicas: some(current_replicas),
        updated_replicas: some(updated),
        current_revision: Some(current_revision),
        update_revision: Some(update),
        collision_count: Some(stored.collision_count.unwrap_or(0)),
        observed_generation: set.metadata.generation.max(stored.observed_generation),
        conditions: conditions::waiting(stored.conditions, explain(plan), observed.now),
    }
}

/// When the next ready pod becomes available.
pub(super) fn next_available(observed: &Observed<'_>) -> Option<Duration> {
    let terms = Terms::of(&observed.set);
    let left =
        observed.pods.iter().filter_map(|it| pods::available_in(it, terms.min_ready, observed.now));
    left.filter(|it| !it.is_zero()).min()
}
