//! What a simulated node says of itself. Pure.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use api::core::node::SIMULATED;
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::api::core::v1::{
    Node, NodeAddress, NodeCondition, NodeSpec, NodeStatus, NodeSystemInfo,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta, OwnerReference, Time};

/// As kubelets use it: renewed every 10 s, valid for 40 s.
pub(crate) const LEASE_NAMESPACE: &str = "kube-node-lease";
pub(crate) const LEASE_SECONDS: i32 = 40;

/// (type, status when healthy, reason, message)
const CONDITIONS: &[(&str, &str, &str, &str)] = &[
    (
        "MemoryPressure",
        "False",
        "KubeletHasSufficientMemory",
        "kubelet has sufficient memory available",
    ),
    ("DiskPressure", "False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
    ("PIDPressure", "False", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
    ("Ready", "True", "KubeletReady", "simulated node is ready"),
];

pub(crate) fn name(index: usize) -> String {
    format!("sim-{index}")
}

/// Addresses of the range for benchmarks (RFC 2544): nothing real is there.
pub(crate) fn address(index: usize) -> Ipv4Addr {
    let base = u32::from(Ipv4Addr::new(198, 18, 0, 0));
    Ipv4Addr::from(base + (index as u32 % 0x1_fffe) + 1)
}

pub(crate) fn registration(index: usize, version: &str, now: Timestamp) -> Node {
    let name = name(index);
    let labels = [
        ("kubernetes.io/hostname", name.as_str()),
        ("kubernetes.io/os", "linux"),
        ("kubernetes.io/arch", "amd64"),
        ("beta.kubernetes.io/os", "linux"),
        ("beta.kubernetes.io/arch", "amd64"),
        // Nobody outside reaches it.
        ("node.kubernetes.io/exclude-from-external-load-balancers", ""),
        ("xebec.local/simulated", "true"),
    ];
    let labels =
        labels.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
    Node {
        metadata: ObjectMeta {
            name: Some(name.clone()),
            labels: Some(labels),
            ..ObjectMeta::default()
        },
        spec: Some(NodeSpec {
            provider_id: Some(format!("{SIMULATED}{name}")),
            ..NodeSpec::default()
        }),
        status: Some(status(index, version, now)),
    }
}

pub(crate) fn status(index: usize, version: &str, now: Timestamp) -> NodeStatus {
    let capacity: BTreeMap<String, Quantity> = [("cpu", "16"), ("memory", "64Gi"), ("pods", "110")]
        .iter()
        .map(|(name, amount)| ((*name).to_owned(), Quantity((*amount).to_owned())))
        .collect();
    let address = |kind: &str, address: String| NodeAddress { type_: kind.to_owned(), address };
    NodeStatus {
        addresses: Some(vec![
            address("InternalIP", self::address(index).to_string()),
            address("Hostname", name(index)),
        ]),
        allocatable: Some(capacity.clone()),
        capacity: Some(capacity),
        conditions: Some(conditions(now)),
        node_info: Some(NodeSystemInfo {
            architecture: "amd64".to_owned(),
            operating_system: "linux".to_owned(),
            container_runtime_version: "simulated://1".to_owned(),
            kubelet_version: version.to_owned(),
            kube_proxy_version: String::new(),
            kernel_version: "simulated".to_owned(),
            os_image: "Xebec simulated node".to_owned(),
            ..NodeSystemInfo::default()
        }),
        ..NodeStatus::default()
    }
}

fn conditions(now: Timestamp) -> Vec<NodeCondition> {
    CONDITIONS
        .iter()
        .map(|(kind, status, reason, message)| NodeCondition {
            type_: (*kind).to_owned(),
            status: (*status).to_owned(),
            reason: Some((*reason).to_owned()),
            message: Some((*message).to_owned()),
            last_heartbeat_time: Some(Time(now)),
            last_transition_time: Some(Time(now)),
        })
        .collect()
}

/// The lease belongs to the Node, so that it goes with it.
pub(crate) fn lease(name: &str, node_uid: String, now: Timestamp) -> Lease {
    let name = name.to_owned();
    Lease {
        metadata: ObjectMeta {
            name: Some(name.clone()),
            namespace: Some(LEASE_NAMESPACE.to_owned()),
            owner_references: Some(vec![OwnerReference {
                api_version: "v1".to_owned(),
                kind: "Node".to_owned(),
                name: name.clone(),
                uid: node_uid,
                ..OwnerReference::default()
            }]),
            ..ObjectMeta::default()
        },
        spec: Some(LeaseSpec {
            holder_identity: Some(name),
            lease_duration_seconds: Some(LEASE_SECONDS),
            renew_time: Some(MicroTime(now)),
            ..LeaseSpec::default()
        }),
    }
}
