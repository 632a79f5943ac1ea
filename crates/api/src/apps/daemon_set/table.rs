//! DaemonSets in `kubectl get`.

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::{DaemonSet, DaemonSetSpec, DaemonSetStatus};
use serde_json::Value;

use apimachinery::table::Column;

use crate::cell;

pub(super) const COLUMNS: &[Column] = &[
    Column::name(),
    Column::new("Desired", "integer"),
    Column::new("Current", "integer"),
    Column::new("Ready", "integer"),
    Column::new("Up-to-date", "integer"),
    Column::new("Available", "integer"),
    Column::new("Node Selector", "string"),
    Column::new("Age", "string"),
    Column::new("Containers", "string").wide(),
    Column::new("Images", "string").wide(),
    Column::new("Selector", "string").wide(),
];

pub(super) fn row(object: &DaemonSet, now: Timestamp) -> Vec<Value> {
    let (no_spec, no_status) = (DaemonSetSpec::default(), DaemonSetStatus::default());
    let spec = object.spec.as_ref().unwrap_or(&no_spec);
    let status = object.status.as_ref().unwrap_or(&no_status);
    let node_selector = spec.template.spec.as_ref().and_then(|it| it.node_selector.as_ref());
    let [names, images] = cell::template_containers(Some(&spec.template));
    vec![
        cell::name(&object.metadata),
        Value::from(status.desired_number_scheduled),
        Value::from(status.current_number_scheduled),
        Value::from(status.number_ready),
        Value::from(status.updated_number_scheduled.unwrap_or(0)),
        Value::from(status.number_available.unwrap_or(0)),
        cell::labels(node_selector),
        cell::age(&object.metadata, now),
        names,
        images,
        cell::selector(&spec.selector),
    ]
}
