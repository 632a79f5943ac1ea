//! Autoscalers in `kubectl get`.

use jiff::Timestamp;
use k8s_openapi::api::autoscaling::v2::{
    HorizontalPodAutoscaler, MetricSpec, MetricStatus, MetricTarget, MetricValueStatus,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use serde_json::Value;

use apimachinery::table::Column;

use crate::cell;

pub(super) const COLUMNS: &[Column] = &[
    Column::name(),
    Column::new("Reference", "string"),
    Column::new("Targets", "string"),
    Column::new("MinPods", "string"),
    Column::new("MaxPods", "string"),
    Column::new("Replicas", "string"),
    Column::new("Age", "string"),
];

/// Metrics that are shown.
const SHOWN_MAX: usize = 2;
const UNKNOWN: &str = "<unknown>";

pub(super) fn row(autoscaler: &HorizontalPodAutoscaler, now: Timestamp) -> Vec<Value> {
    let spec = &autoscaler.spec;
    let status = autoscaler.status.clone().unwrap_or_default();
    let target = &spec.scale_target_ref;
    let min = spec.min_replicas.map_or_else(|| "<unset>".to_owned(), |it| it.to_string());
    let measured = status.current_metrics.unwrap_or_default();
    vec![
        cell::name(&autoscaler.metadata),
        Value::from(format!("{}/{}", target.kind, target.name)),
        Value::from(targets(spec.metrics.as_deref().unwrap_or_default(), &measured)),
        Value::from(min),
        Value::from(spec.max_replicas),
        Value::from(status.current_replicas.unwrap_or(0)),
        cell::age(&autoscaler.metadata, now),
    ]
}

fn targets(specs: &[MetricSpec], measured: &[MetricStatus]) -> String {
    if specs.is_empty() {
        return "<none>".to_owned();
    }
    let each = specs.iter().enumerate().map(|(index, it)| one(it, measured.get(index)));
    let shown: Vec<String> = each.take(SHOWN_MAX).collect();
    let shown = shown.join(", ");
    match specs.len().saturating_sub(SHOWN_MAX) {
        0 => shown,
        more => format!("{shown} + {more} more..."),
    }
}

/// `cpu: 10%/80%`
fn one(spec: &MetricSpec, measured: Option<&MetricStatus>) -> String {
    let current = |of: fn(&MetricStatus) -> Option<&MetricValueStatus>| measured.and_then(of);
    match spec.type_.as_str() {
        "External" => {
            let target = spec.external.as_ref().map(|it| &it.target);
            amount(target, current(|it| it.external.as_ref().map(|it| &it.current)))
        }
        "Object" => {
            let target = spec.object.as_ref().map(|it| &it.target);
            amount(target, current(|it| it.object.as_ref().map(|it| &it.current)))
        }
        "Pods" => {
            let target = spec.pods.as_ref().and_then(|it| it.target.average_value.as_ref());
            let current = current(|it| it.pods.as_ref().map(|it| &it.current));
            let current = current.and_then(|it| it.average_value.as_ref());
            format!("{}/{}", shown(current), shown(target))
        }
        "Resource" => spec.resource.as_ref().map_or_else(String::new, |it| {
            let current = current(|it| it.resource.as_ref().map(|it| &it.current));
            resource(&it.name, &it.target, current)
        }),
        "ContainerResource" => spec.container_resource.as_ref().map_or_else(String::new, |it| {
            let current = current(|it| it.container_resource.as_ref().map(|it| &it.current));
            resource(&it.name, &it.target, current)
        }),
        _ => "<unknown type>".to_owned(),
    }
}

fn shown(quantity: Option<&Quantity>) -> String {
    quantity.map_or_else(|| UNKNOWN.to_owned(), |it| it.0.clone())
}

/// Of all pods together, or of each on average.
fn amount(target: Option<&MetricTarget>, current: Option<&MetricValueStatus>) -> String {
    match target.and_then(|it| it.average_value.as_ref()) {
        Some(target) => {
            let current = current.and_then(|it| it.average_value.as_ref());
            format!("{}/{} (avg)", shown(current), target.0)
        }
        None => {
            let current = current.and_then(|it| it.value.as_ref());
            format!("{}/{}", shown(current), shown(target.and_then(|it| it.value.as_ref())))
        }
    }
}

fn resource(name: &str, target: &MetricTarget, current: Option<&MetricValueStatus>) -> String {
    if let Some(target) = &target.average_value {
        let current = current.and_then(|it| it.average_value.as_ref());
        return format!("{name}: {}/{}", shown(current), target.0);
    }
    let percent =
        |it: Option<i32>, absent: &str| it.map_or_else(|| absent.to_owned(), |it| format!("{it}%"));
    let current = percent(current.and_then(|it| it.average_utilization), UNKNOWN);
    format!("{name}: {current}/{}", percent(target.average_utilization, "<auto>"))
}
