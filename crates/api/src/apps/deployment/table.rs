//! Deployments in `kubectl get`.

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::{Deployment, DeploymentSpec, DeploymentStatus};
use serde_json::Value;

use apimachinery::table::Column;

use crate::cell;

pub(super) const COLUMNS: &[Column] = &[
    Column::name(),
    Column::new("Ready", "string"),
    Column::new("Up-to-date", "string"),
    Column::new("Available", "string"),
    Column::new("Age", "string"),
    Column::new("Containers", "string").wide(),
    Column::new("Images", "string").wide(),
    Column::new("Selector", "string").wide(),
];

pub(super) fn row(deployment: &Deployment, now: Timestamp) -> Vec<Value> {
    let (no_spec, no_status) = (DeploymentSpec::default(), DeploymentStatus::default());
    let spec = deployment.spec.as_ref().unwrap_or(&no_spec);
    let status = deployment.status.as_ref().unwrap_or(&no_status);
    let containers = spec.template.spec.as_ref().map_or(&[][..], |it| &it.containers);
    let [names, images] = cell::containers_and_images(containers);
    let ready = status.ready_replicas.unwrap_or(0);
    vec![
        cell::name(&deployment.metadata),
        Value::from(format!("{ready}/{}", spec.replicas.unwrap_or(0))),
        Value::from(status.updated_replicas.unwrap_or(0)),
        Value::from(status.available_replicas.unwrap_or(0)),
        cell::age(&deployment.metadata, now),
        names,
        images,
        cell::selector(&spec.selector),
    ]
}
