//! Fields that pods can be selected by.

use k8s_openapi::api::core::v1::Pod;

use crate::check::text;

pub(super) const NAMES: &[(&str, &str)] = &[
    ("spec.nodeName", "spec.nodeName"),
    ("spec.host", "spec.nodeName"),
    ("spec.restartPolicy", "spec.restartPolicy"),
    ("spec.schedulerName", "spec.schedulerName"),
    ("spec.serviceAccountName", "spec.serviceAccountName"),
    ("spec.hostNetwork", "spec.hostNetwork"),
    ("status.phase", "status.phase"),
    ("status.podIP", "status.podIP"),
    ("status.podIPs", "status.podIP"),
    ("status.nominatedNodeName", "status.nominatedNodeName"),
];

pub(super) fn values(pod: &Pod) -> Vec<(&'static str, String)> {
    let spec = pod.spec.as_ref();
    let status = pod.status.as_ref();
    let owned = |it: Option<&String>| text(it).to_owned();
    let is_on_host = spec.and_then(|it| it.host_network).unwrap_or(false);
    vec![
        ("spec.nodeName", owned(spec.and_then(|it| it.node_name.as_ref()))),
        ("spec.restartPolicy", owned(spec.and_then(|it| it.restart_policy.as_ref()))),
        ("spec.schedulerName", owned(spec.and_then(|it| it.scheduler_name.as_ref()))),
        ("spec.serviceAccountName", owned(spec.and_then(|it| it.service_account_name.as_ref()))),
        ("spec.hostNetwork", is_on_host.to_string()),
        ("status.phase", owned(status.and_then(|it| it.phase.as_ref()))),
        ("status.podIP", owned(status.and_then(|it| it.pod_ip.as_ref()))),
        ("status.nominatedNodeName", owned(status.and_then(|it| it.nominated_node_name.as_ref()))),
    ]
}
