//! Nodes in `kubectl get`.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, NodeSystemInfo};
use serde_json::Value;

use apimachinery::table::Column;

use super::{address, condition};
use crate::cell;

const ROLE_PREFIX: &str = "node-role.kubernetes.io/";
const ROLE_LABEL: &str = "kubernetes.io/role";

pub(super) const COLUMNS: &[Column] = &[
    Column::name(),
    Column::new("Status", "string"),
    Column::new("Roles", "string"),
    Column::new("Age", "string"),
    Column::new("Version", "string"),
    Column::new("Internal-IP", "string").wide(),
    Column::new("External-IP", "string").wide(),
    Column::new("OS-Image", "string").wide(),
    Column::new("Kernel-Version", "string").wide(),
    Column::new("Container-Runtime", "string").wide(),
];

pub(super) fn row(node: &Node, now: Timestamp) -> Vec<Value> {
    let absent = NodeSystemInfo::default();
    let system = node.status.as_ref().and_then(|it| it.node_info.as_ref()).unwrap_or(&absent);
    let kernel = match system.architecture.as_str() {
        "" => system.kernel_version.clone(),
        architecture => format!("{} ({architecture})", system.kernel_version),
    };
    vec![
        cell::name(&node.metadata),
        Value::from(status(node)),
        cell::or_none(&roles(node).join(",")),
        cell::age(&node.metadata, now),
        Value::from(system.kubelet_version.as_str()),
        cell::or_none(address(node, "InternalIP")),
        cell::or_none(address(node, "ExternalIP")),
        cell::or(&system.os_image, "<unknown>"),
        cell::or(kernel.trim(), "<unknown>"),
        cell::or(&system.container_runtime_version, "<unknown>"),
    ]
}

fn status(node: &Node) -> String {
    let readiness = match condition(node, "Ready") {
        Some(it) if it.status == "True" => "Ready",
        Some(_) => "NotReady",
        None => "Unknown",
    };
    let is_unschedulable = node.spec.as_ref().is_some_and(|it| it.unschedulable == Some(true));
    format!("{readiness}{}", if is_unschedulable { ",SchedulingDisabled" } else { "" })
}

/// Sorted, each once.
fn roles(node: &Node) -> Vec<&str> {
    let labels = node.metadata.labels.iter().flatten();
    let mut roles: Vec<&str> = labels
        .filter_map(|(key, value)| match key.strip_prefix(ROLE_PREFIX) {
            Some(role) => Some(role),
            None if key == ROLE_LABEL => Some(value.as_str()),
            None => None,
        })
        .filter(|it| !it.is_empty())
        .collect();
    roles.sort_unstable();
    roles.dedup();
    roles
}
