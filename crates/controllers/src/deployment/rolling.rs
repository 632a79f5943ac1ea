//! RollingUpdate: new pods come up and old ones go down within `maxSurge` and `maxUnavailable`.
//! Pure.

use std::sync::Arc;

use api::apps::deployment::Deployment;
use api::apps::replica_set::ReplicaSet;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use super::plan::{Scale, available, is_recreate, replicas, wanted};
use super::revisions::age_key;
use crate::share::{Round, resolve};

/// How many pods more, and how many fewer, than wanted there may be during an update.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bounds {
    pub surge: i32,
    pub unavailable: i32,
}

/// Surge rounds up and unavailability down, and never are both zero: an update could not move.
pub(crate) fn bounds(deployment: &Deployment) -> Bounds {
    let total = wanted(deployment);
    if is_recreate(deployment) {
        return Bounds { surge: 0, unavailable: 0 };
    }
    let strategy = deployment.spec.as_ref().and_then(|it| it.strategy.as_ref());
    let rolling = strategy.and_then(|it| it.rolling_update.as_ref());
    let quarter = IntOrString::String("25%".to_owned());
    let surge = rolling.and_then(|it| it.max_surge.as_ref()).unwrap_or(&quarter);
    let unavailable = rolling.and_then(|it| it.max_unavailable.as_ref()).unwrap_or(&quarter);
    let surge = resolve(surge, total, Round::Up);
    let unavailable = resolve(unavailable, total, Round::Down);
    if surge == 0 && unavailable == 0 {
        return Bounds { surge, unavailable: 1.min(total) };
    }
    Bounds { surge, unavailable: unavailable.min(total) }
}

/// Sizes are the users'; together they may be more than a size can be.
pub(crate) fn sum(sizes: impl Iterator<Item = i32>) -> i32 {
    sizes.fold(0, i32::saturating_add)
}

/// The size of the current ReplicaSet: as large as the surge allows, never above the wanted size.
pub(crate) fn size_of_new(deployment: &Deployment, current: i32, all: i32) -> i32 {
    let total = wanted(deployment);
    if current > total {
        return total;
    }
    let room = total.saturating_add(bounds(deployment).surge).saturating_sub(all).max(0);
    current + room.min(total - current)
}

/// First old pods that serve nobody, then healthy ones as far as enough remain available.
///
/// Worked example, 3 wanted, at most 0 unavailable, 1 surge: `new 1/1, old 3/3` has 4 available, so
/// one old pod may go; `new 1/0, old 3/3` has 3, so none may.
pub(crate) fn scale_down_old(
    deployment: &Deployment,
    new: &ReplicaSet,
    old: &[Arc<ReplicaSet>],
) -> Vec<Scale> {
    let minimum = wanted(deployment) - bounds(deployment).unavailable;
    let all = sum(old.iter().map(|it| replicas(it))).saturating_add(replicas(new));
    let new_unavailable = (replicas(new) - available(new)).max(0);
    let mut may_go = all.saturating_sub(minimum).saturating_sub(new_unavailable);
    let mut oldest_first: Vec<&Arc<ReplicaSet>> =
        old.iter().filter(|it| replicas(it) > 0).collect();
    oldest_first.sort_by_key(|it| age_key(it));
    let mut sizes: Vec<i32> = oldest_first.iter().map(|it| replicas(it)).collect();

    for (size, replica_set) in sizes.iter_mut().zip(&oldest_first) {
        let unhealthy = *size - available(replica_set);
        let gone = unhealthy.min(may_go).max(0);
        *size -= gone;
        may_go -= gone;
    }
    let available_old = sum(oldest_first.iter().map(|it| available(it)));
    let available_now = available_old.saturating_add(available(new));
    let mut spare = available_now.saturating_sub(minimum).min(may_go);
    for size in &mut sizes {
        let gone = (*size).min(spare).max(0);
        *size -= gone;
        spare -= gone;
    }
    oldest_first
        .iter()
        .zip(sizes)
        .filter(|(it, size)| replicas(it) != *size)
        .map(|(it, size)| Scale { replica_set: Arc::clone(it), replicas: size })
        .collect()
}
