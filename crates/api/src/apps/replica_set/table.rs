//! ReplicaSets in `kubectl get`.

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::ReplicaSet;
use serde_json::Value;

use apimachinery::table::Column;

use crate::cell;

pub(super) const COLUMNS: &[Column] = &[
    Column::name(),
    Column::new("Desired", "integer"),
    Column::new("Current", "integer"),
    Column::new("Ready", "integer"),
    Column::new("Age", "string"),
    Column::new("Containers", "string").wide(),
    Column::new("Images", "string").wide(),
    Column::new("Selector", "string").wide(),
];

pub(super) fn row(object: &ReplicaSet, now: Timestamp) -> Vec<Value> {
    let spec = object.spec.as_ref();
    let status = object.status.as_ref();
    let template = spec.and_then(|it| it.template.as_ref()?.spec.as_ref());
    let [names, images] =
        cell::containers_and_images(template.map_or(&[][..], |it| &it.containers));
    vec![
        cell::name(&object.metadata),
        Value::from(spec.and_then(|it| it.replicas).unwrap_or(0)),
        Value::from(status.map_or(0, |it| it.replicas)),
        Value::from(status.and_then(|it| it.ready_replicas).unwrap_or(0)),
        cell::age(&object.metadata, now),
        names,
        images,
        spec.map_or_else(|| Value::from(""), |it| cell::selector(&it.selector)),
    ]
}
