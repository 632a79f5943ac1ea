//! What the pools of a driver have, counted from its slices and from all claims. Pure.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use api::resource::{ResourceClaim, ResourcePoolStatusRequest, ResourceSlice};
use jiff::Timestamp;
use k8s_openapi::api::resource::v1alpha3::{PoolStatus, ResourcePoolStatusRequestStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use crate::{conditions, pods};

/// An answer is kept for so long, and a question without one.
const ANSWERED: Duration = Duration::from_secs(60 * 60);
const PENDING: Duration = Duration::from_secs(24 * 60 * 60);
/// How long slices that a driver has announced are waited for.
const PATIENCE: Duration = Duration::from_secs(30);
/// Bytes of what is wrong with a pool.
const ERROR_MAX: usize = 256;
const LIMIT: i32 = 100;

pub(super) struct Observed<'a> {
    pub(super) request: &'a ResourcePoolStatusRequest,
    /// Of its driver.
    pub(super) slices: &'a [Arc<ResourceSlice>],
    pub(super) claims: &'a [Arc<ResourceClaim>],
    pub(super) now: Timestamp,
}

#[derive(Debug, PartialEq)]
pub(super) enum Action {
    Delete,
    Answer(Box<ResourcePoolStatusRequestStatus>),
    Wait(Duration),
}

pub(super) fn plan(observed: &Observed<'_>) -> Action {
    let Observed { request, now, .. } = *observed;
    let made = request.metadata.creation_timestamp.as_ref().map_or(now, |it| it.0);
    let answered = request.status.as_ref().map(|it| {
        let all = it.conditions.iter().flatten();
        let mut ends = all.filter(|it| matches!(it.type_.as_str(), "Complete" | "Failed"));
        ends.next().map_or(made, |it| it.last_transition_time.0)
    });
    if let Some(since) = answered {
        return match pods::remaining(since, ANSWERED, now) {
            Duration::ZERO => Action::Delete,
            left => Action::Wait(left),
        };
    }
    if pods::remaining(made, PENDING, now).is_zero() {
        return Action::Delete;
    }
    let status = answer(observed);
    let mut pools = status.pools.iter().flatten();
    let patience = pods::remaining(made, PATIENCE, now);
    if pools.any(|it| it.validation_error.is_some()) && !patience.is_zero() {
        return Action::Wait(patience);
    }
    Action::Answer(Box::new(status))
}

/// What the newest slices of a pool say.
#[derive(Default)]
struct Pool<'a> {
    generation: i64,
    n_devices: usize,
    n_slices: usize,
    n_announced: i64,
    /// Of all slices; `None` as soon as they differ.
    node: Option<&'a str>,
}

fn pools<'a>(observed: &Observed<'a>) -> BTreeMap<&'a str, Pool<'a>> {
    let spec = &observed.request.spec;
    let wanted = spec.pool_name.as_deref().unwrap_or_default();
    let mut pools: BTreeMap<&str, Pool<'_>> = BTreeMap::new();
    for slice in observed.slices.iter().filter(|it| it.spec.driver == spec.driver) {
        let (name, generation) = (slice.spec.pool.name.as_str(), slice.spec.pool.generation);
        if !wanted.is_empty() && wanted != name {
            continue;
        }
        let node = slice.spec.node_name.as_deref().filter(|it| !it.is_empty());
        let pool = pools.entry(name).or_default();
        if generation < pool.generation {
            continue;
        }
        if generation > pool.generation || pool.n_slices == 0 {
            let n_announced = slice.spec.pool.resource_slice_count;
            *pool = Pool { generation, n_announced, node, ..Pool::default() };
        }
        pool.n_slices += 1;
        pool.n_devices += slice.spec.devices.as_ref().map_or(0, Vec::len);
        pool.node = pool.node.filter(|it| Some(*it) == node);
    }
    pools
}

/// How many devices of each pool claims have.
fn allocated<'a>(observed: &Observed<'a>) -> BTreeMap<&'a str, usize> {
    let mut counts = BTreeMap::new();
    let allocations =
        observed.claims.iter().filter_map(|it| it.status.as_ref()?.allocation.as_ref());
    let devices = allocations.filter_map(|it| it.devices.as_ref()?.results.as_ref()).flatten();
    for device in devices.filter(|it| it.driver == observed.request.spec.driver) {
        *counts.entry(device.pool.as_str()).or_default() += 1;
    }
    counts
}

fn count(n: usize) -> i32 {
    i32::try_from(n).unwrap_or(i32::MAX)
}

fn status_of(driver: &str, name: &str, pool: &Pool<'_>, n_allocated: usize) -> PoolStatus {
    let status = PoolStatus {
        driver: driver.to_owned(),
        pool_name: name.to_owned(),
        generation: pool.generation,
        node_name: pool.node.map(str::to_owned),
        ..PoolStatus::default()
    };
    let Pool { n_slices, n_announced, n_devices, generation, .. } = *pool;
    if i64::try_from(n_slices).unwrap_or(i64::MAX) < n_announced {
        let mut error = format!(
            "pool {driver}/{name} is incomplete: observed {n_slices}/{n_announced} slices at \
             generation {generation}"
        );
        error.truncate(error.floor_char_boundary(ERROR_MAX));
        return PoolStatus { validation_error: Some(error), ..status };
    }
    PoolStatus {
        resource_slice_count: Some(count(n_slices)),
        total_devices: Some(count(n_devices)),
        allocated_devices: Some(count(n_allocated)),
        available_devices: Some(count(n_devices.saturating_sub(n_allocated))),
        // As upstream: taints of devices do not count yet.
        unavailable_devices: Some(0),
        ..status
    }
}

fn answer(observed: &Observed<'_>) -> ResourcePoolStatusRequestStatus {
    let spec = &observed.request.spec;
    let (pools, allocated) = (pools(observed), allocated(observed));
    let limit = usize::try_from(spec.limit.unwrap_or(LIMIT)).unwrap_or_default();
    let status = |(name, pool): (&&str, &Pool<'_>)| {
        status_of(&spec.driver, name, pool, allocated.get(name).copied().unwrap_or_default())
    };
    let shown: Vec<PoolStatus> = pools.iter().take(limit).map(status).collect();
    let n_incomplete = shown.iter().filter(|it| it.validation_error.is_some()).count();
    let incomplete = match n_incomplete {
        0 => String::new(),
        n => format!(" ({n} incomplete)"),
    };
    let complete = Condition {
        type_: "Complete".to_owned(),
        status: "True".to_owned(),
        reason: "CalculationComplete".to_owned(),
        message: format!("Calculated status for {} pools{incomplete}", shown.len()),
        last_transition_time: conditions::time(observed.now),
        observed_generation: None,
    };
    ResourcePoolStatusRequestStatus {
        pool_count: count(pools.len()),
        pools: (!shown.is_empty()).then_some(shown),
        conditions: Some(vec![complete]),
    }
}
