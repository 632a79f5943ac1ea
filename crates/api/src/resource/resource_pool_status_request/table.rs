//! Columns of ResourcePoolStatusRequests.

use apimachinery::table::Column;
use jiff::Timestamp;
use k8s_openapi::api::resource::v1alpha3::PoolStatus;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use serde_json::Value;

use super::ResourcePoolStatusRequest;
use crate::cell;

pub(super) const COLUMNS: &[Column] = &[
    Column::name(),
    Column::new("Driver", "string"),
    Column::new("Total", "string"),
    Column::new("Available", "string"),
    Column::new("Allocated", "string"),
    Column::new("Unavailable", "string"),
    Column::new("Errors", "string"),
    Column::new("Pools", "integer"),
    Column::new("Status", "string"),
    Column::new("Completed", "string"),
];

pub(super) fn row(request: &ResourcePoolStatusRequest, now: Timestamp) -> Vec<Value> {
    let status = request.status.as_ref();
    let pools = status.and_then(|it| it.pools.as_deref()).unwrap_or_default();
    let n_pools = status.map_or(0, |it| it.pool_count);
    let conditions = status.and_then(|it| it.conditions.as_deref()).unwrap_or_default();
    let is_end = |it: &&Condition| {
        it.status == "True" && ["Complete", "Failed"].contains(&it.type_.as_str())
    };
    let end = conditions.iter().find(is_end);
    let is_failed = end.is_some_and(|it| it.type_ == "Failed");
    let completed = end.filter(|_| !is_failed);
    let outcome = match end {
        None => "Pending".to_owned(),
        Some(it) if !is_failed && usize::try_from(n_pools).is_ok_and(|it| it > pools.len()) => {
            format!("{} ({}/{n_pools} pools)", it.type_, pools.len())
        }
        Some(it) => it.type_.clone(),
    };
    let is_counted = status.is_some() && !is_failed;
    let sum = |count: fn(&PoolStatus) -> Option<i32>| match is_counted {
        true => pools.iter().map(|it| i64::from(count(it).unwrap_or(0))).sum::<i64>().to_string(),
        false => "-".to_owned(),
    };
    vec![
        cell::name(&request.metadata),
        Value::from(request.spec.driver.as_str()),
        Value::from(sum(|it| it.total_devices)),
        Value::from(sum(|it| it.available_devices)),
        Value::from(sum(|it| it.allocated_devices)),
        Value::from(sum(|it| it.unavailable_devices)),
        Value::from(sum(|it| it.validation_error.as_ref().map(|_| 1))),
        Value::from(n_pools),
        Value::from(outcome),
        cell::or_none(
            &completed
                .map(|it| cell::since(Some(&it.last_transition_time), now))
                .unwrap_or_default(),
        ),
    ]
}
