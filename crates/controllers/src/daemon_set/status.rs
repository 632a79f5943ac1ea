//! The status of a DaemonSet, from its nodes and pods. Pure.

use api::apps::DaemonSet;
use k8s_openapi::api::apps::v1::DaemonSetStatus;

use super::plan::{Plan, View, explain};
use crate::conditions;

pub(super) fn observed_generation(set: &DaemonSet) -> i64 {
    set.status.as_ref().and_then(|it| it.observed_generation).unwrap_or(0)
}

pub(super) fn plan(view: &View<'_>, plan: &Plan) -> DaemonSetStatus {
    let set = &*view.observed.set;
    let stored = set.status.clone().unwrap_or_default();
    let mut status = DaemonSetStatus::default();
    let (mut updated, mut available) = (0, 0);
    for site in &view.sites {
        let pod = site.pods.first();
        if !site.verdict.should_run {
            status.number_misscheduled += i32::from(pod.is_some());
            continue;
        }
        status.desired_number_scheduled += 1;
        let Some(pod) = pod else { continue };
        status.current_number_scheduled += 1;
        status.number_ready += i32::from(pod.is_ready);
        available += i32::from(view.is_available(pod));
        updated += i32::from(view.is_updated(pod));
    }
    let some = |it: i32| Some(it).filter(|it| *it != 0);
    status.updated_number_scheduled = some(updated);
    status.number_available = some(available);
    status.number_unavailable = some(status.desired_number_scheduled - available);
    status.observed_generation = set.metadata.generation.max(stored.observed_generation);
    status.collision_count = stored.collision_count;
    let said = explain(plan);
    status.conditions = conditions::waiting(stored.conditions, said, view.observed.now);
    status
}
