//! A Deployment that is scaled in the middle of an update: its ReplicaSets grow and shrink in
//! proportion, so that the update goes on from where it was. Pure.

use std::cmp::Reverse;
use std::sync::Arc;

use api::apps::deployment::Deployment;
use api::apps::replica_set::ReplicaSet;

use super::plan::{Observed, Scale, available, replicas, wanted};
use super::revisions::{self, DESIRED_REPLICAS, MAX_REPLICAS, age_key};
use super::rolling;

/// Whether the wanted size changed since the ReplicaSets were last scaled.
pub(crate) fn is_scaling(observed: &Observed) -> bool {
    observed
        .all()
        .filter(|it| replicas(it) > 0)
        .filter_map(|it| revisions::number(it, DESIRED_REPLICAS))
        .any(|it| it != wanted(&observed.deployment))
}

pub(crate) fn scale(observed: &Observed) -> Vec<Scale> {
    let deployment = &observed.deployment;
    let total = wanted(deployment);
    let mut active: Vec<Arc<ReplicaSet>> =
        observed.all().filter(|it| replicas(it) > 0).cloned().collect();
    if let Some(only) = only_one(observed, &active) {
        return to_size(deployment, &only, total).into_iter().collect();
    }
    if observed.current.as_ref().is_some_and(|it| is_saturated(deployment, it)) {
        return observed.old.iter().filter_map(|it| to_size(deployment, it, 0)).collect();
    }
    if observed.is_recreate() {
        return Vec::new();
    }
    let surge = rolling::bounds(deployment).surge;
    let allowed = if total > 0 { total.saturating_add(surge) } else { 0 };
    let add = allowed.saturating_sub(rolling::sum(active.iter().map(|it| replicas(it))));
    // The largest first; growth prefers newer ones, shrinking older ones.
    if add > 0 {
        active.sort_by_key(|it| (Reverse(replicas(it)), Reverse(age_key(it))));
    } else {
        active.sort_by_key(|it| (Reverse(replicas(it)), age_key(it)));
    }
    let mut added = 0;
    let mut sizes = Vec::with_capacity(active.len());
    for replica_set in &active {
        let share = share(deployment, replica_set, add, added, total.saturating_add(surge));
        sizes.push(replicas(replica_set).saturating_add(share));
        added = share.saturating_add(added);
    }
    if let Some(first) = sizes.first_mut() {
        *first = first.saturating_add(add.saturating_sub(added)).max(0);
    }
    active.iter().zip(sizes).filter_map(|(it, size)| to_size(deployment, it, size)).collect()
}

/// The one active ReplicaSet, or the newest when none is active: it takes every pod.
fn only_one(observed: &Observed, active: &[Arc<ReplicaSet>]) -> Option<Arc<ReplicaSet>> {
    match active {
        [] => observed
            .current
            .clone()
            .or_else(|| observed.old.iter().max_by_key(|it| age_key(it)).cloned()),
        [only] => Some(only.clone()),
        _ => None,
    }
}

/// A size that stays is written too when its annotations speak of another wanted size.
fn to_size(deployment: &Deployment, replica_set: &Arc<ReplicaSet>, size: i32) -> Option<Scale> {
    let desired = revisions::number(replica_set, DESIRED_REPLICAS);
    let is_remembered = size == 0 || desired == Some(wanted(deployment));
    (replicas(replica_set) != size || !is_remembered)
        .then(|| Scale { replica_set: replica_set.clone(), replicas: size })
}

fn is_saturated(deployment: &Deployment, replica_set: &ReplicaSet) -> bool {
    let total = wanted(deployment);
    replicas(replica_set) == total
        && revisions::number(replica_set, DESIRED_REPLICAS) == Some(total)
        && available(replica_set) == total
}

fn share(
    deployment: &Deployment,
    replica_set: &ReplicaSet,
    add: i32,
    added: i32,
    max_total: i32,
) -> i32 {
    let size = replicas(replica_set);
    if size == 0 || add == 0 || add == added {
        return 0;
    }
    let fraction = if wanted(deployment) == 0 {
        -size
    } else {
        let former_max = revisions::number(replica_set, MAX_REPLICAS)
            .filter(|it| *it > 0)
            .or_else(|| deployment.status.as_ref().and_then(|it| it.replicas))
            .unwrap_or(size)
            .max(1);
        let exact = f64::from(size) * f64::from(max_total) / f64::from(former_max);
        #[expect(clippy::cast_possible_truncation, reason = "a share of two i32 sizes")]
        let target = exact.round() as i32;
        target - size
    };
    let allowed = add.saturating_sub(added);
    if add > 0 { fraction.min(allowed).max(0) } else { fraction.max(allowed).min(0) }
}
