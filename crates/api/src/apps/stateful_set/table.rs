//! StatefulSets in `kubectl get`.

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::StatefulSet;
use serde_json::Value;

use apimachinery::table::Column;

use crate::cell;

pub(super) const COLUMNS: &[Column] = &[
    Column::name(),
    Column::new("Ready", "string"),
    Column::new("Age", "string"),
    Column::new("Containers", "string").wide(),
    Column::new("Images", "string").wide(),
];

pub(super) fn row(object: &StatefulSet, now: Timestamp) -> Vec<Value> {
    let spec = object.spec.as_ref();
    let ready = object.status.as_ref().and_then(|it| it.ready_replicas).unwrap_or(0);
    let desired = spec.and_then(|it| it.replicas).unwrap_or(0);
    let [names, images] = cell::template_containers(spec.map(|it| &it.template));
    vec![
        cell::name(&object.metadata),
        Value::from(format!("{ready}/{desired}")),
        cell::age(&object.metadata, now),
        names,
        images,
    ]
}
