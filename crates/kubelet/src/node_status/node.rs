//! What the node says of itself. Pure.

use std::collections::BTreeMap;

use apimachinery::quantity::canonical;
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::api::core::v1::{
    ContainerImage, DaemonEndpoint, Node, NodeAddress, NodeDaemonEndpoints, NodeFeatures,
    NodeRuntimeHandler, NodeRuntimeHandlerFeatures, NodeSpec, NodeStatus, NodeSystemInfo,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta, OwnerReference};
use node_api::images::Image;
use node_api::sandboxes::{Handler, Version};

use super::conditions::{self, Observed};
use crate::huge_pages::Pools;
use crate::pod_facts::Allocatable;
use crate::{Config, Machine};

pub(super) const LEASE_NAMESPACE: &str = "kube-node-lease";
const LEASE_SECONDS: i32 = 40;
/// Upstream's bounds (nodeStatusMaxImages, MaxNamesPerImageInNodeStatus).
const IMAGES_MAX: usize = 50;
const IMAGE_NAMES_MAX: usize = 5;

/// What a status is made from.
pub(super) struct Facts<'a> {
    pub(super) config: &'a Config,
    pub(super) machine: &'a Machine,
    pub(super) allocatable: Allocatable,
    pub(super) images: Vec<Image>,
    /// Who runs the containers.
    pub(super) runtime: Version,
    pub(super) observed: Observed,
    pub(super) now: Timestamp,
}

pub(super) fn registration(facts: &Facts<'_>) -> Node {
    let config = facts.config;
    let cidrs: Vec<String> = config.pod_cidrs.iter().map(ToString::to_string).collect();
    Node {
        metadata: ObjectMeta {
            name: Some(config.node_name.clone()),
            labels: Some(labels(facts)),
            annotations: Some(config.annotations.clone()).filter(|it| !it.is_empty()),
            ..ObjectMeta::default()
        },
        spec: Some(NodeSpec {
            pod_cidr: cidrs.first().cloned(),
            pod_cidrs: Some(cidrs).filter(|it| !it.is_empty()),
            taints: Some(config.taints.clone()).filter(|it| !it.is_empty()),
            ..NodeSpec::default()
        }),
        status: Some(status(facts, None)),
    }
}

pub(super) fn labels(facts: &Facts<'_>) -> BTreeMap<String, String> {
    let architecture = &facts.machine.architecture;
    let of_every_node = [
        ("kubernetes.io/hostname", facts.config.node_name.as_str()),
        ("kubernetes.io/os", "linux"),
        ("kubernetes.io/arch", architecture),
        ("beta.kubernetes.io/os", "linux"),
        ("beta.kubernetes.io/arch", architecture),
    ];
    let of_every_node = of_every_node.map(|(key, value)| (key.to_owned(), value.to_owned()));
    facts.config.labels.clone().into_iter().chain(of_every_node).collect()
}

/// What of upstream's features that nodes have to declare this one has, by name.
const FEATURES: &[&str] =
    &["InPlacePodLevelResourcesVerticalScaling", "InPlacePodVerticalScalingInitContainers"];

/// On top of what others wrote into `old`.
pub(super) fn status(facts: &Facts<'_>, old: Option<&NodeStatus>) -> NodeStatus {
    let (config, machine) = (facts.config, facts.machine);
    let address = |kind: &str, address: String| NodeAddress { type_: kind.to_owned(), address };
    NodeStatus {
        addresses: Some(
            config
                .node_addresses
                .iter()
                .map(|it| address("InternalIP", it.to_string()))
                .chain([address("Hostname", config.node_name.clone())])
                .collect(),
        ),
        capacity: Some(resources(
            i64::from(machine.cpus) * 1000,
            i64::try_from(machine.memory).unwrap_or(i64::MAX),
            i64::try_from(machine.ephemeral_storage).unwrap_or(i64::MAX),
            machine.huge_pages,
            config.max_pods,
        )),
        allocatable: Some(resources(
            facts.allocatable.cpu_millis,
            facts.allocatable.memory,
            facts.allocatable.ephemeral_storage,
            facts.allocatable.huge_pages,
            config.max_pods,
        )),
        conditions: Some(conditions::render(old, &facts.observed, facts.now)),
        daemon_endpoints: Some(NodeDaemonEndpoints {
            kubelet_endpoint: Some(DaemonEndpoint { port: i32::from(config.listen.port()) }),
        }),
        images: Some(images(&facts.images)),
        node_info: Some(node_info(config, machine, &facts.runtime)),
        features: Some(NodeFeatures { supplemental_groups_policy: Some(true) }),
        declared_features: Some(FEATURES.iter().map(|it| (*it).to_owned()).collect()),
        runtime_handlers: Some(handlers(&facts.observed.runtime.handlers))
            .filter(|it| !it.is_empty()),
        ..old.cloned().unwrap_or_default()
    }
}

/// By name. User namespaces are the kubelet's to ask for, which it does not do.
fn handlers(handlers: &BTreeMap<String, Handler>) -> Vec<NodeRuntimeHandler> {
    let features = |it: &Handler| NodeRuntimeHandlerFeatures {
        recursive_read_only_mounts: Some(it.recursive_read_only_mounts),
        user_namespaces: Some(false),
    };
    let handlers = handlers.iter();
    handlers
        .map(|(name, it)| NodeRuntimeHandler {
            name: Some(name.clone()),
            features: Some(features(it)),
        })
        .collect()
}

fn resources(
    cpu_millis: i64,
    memory: i64,
    ephemeral_storage: i64,
    huge_pages: Pools,
    pods: u32,
) -> BTreeMap<String, Quantity> {
    let cpu = match cpu_millis % 1000 {
        0 => (cpu_millis / 1000).to_string(),
        _ => format!("{cpu_millis}m"),
    };
    [
        ("cpu", cpu),
        ("memory", format!("{}Ki", memory / 1024)),
        ("ephemeral-storage", format!("{}Ki", ephemeral_storage / 1024)),
        ("hugepages-1Gi", "0".to_owned()),
        ("hugepages-2Mi", "0".to_owned()),
        ("pods", pods.to_string()),
    ]
    .into_iter()
    .map(|(name, amount)| (name.to_owned(), amount))
    .chain(huge_pages.resources().map(|(name, bytes)| (name, bytes.to_string())))
    // As the server keeps them: else every comparison would find a change.
    .map(|(name, amount)| (name, Quantity(canonical(&amount).unwrap_or(amount))))
    .collect()
}

fn node_info(config: &Config, machine: &Machine, runtime: &Version) -> NodeSystemInfo {
    NodeSystemInfo {
        architecture: machine.architecture.clone(),
        boot_id: machine.boot_id.clone(),
        container_runtime_version: format!("{}://{}", runtime.name, runtime.version),
        kernel_version: machine.kernel_version.clone(),
        kubelet_version: config.version.clone(),
        machine_id: machine.machine_id.clone(),
        operating_system: "linux".to_owned(),
        os_image: machine.os_image.clone(),
        system_uuid: machine.machine_id.clone(),
        ..NodeSystemInfo::default()
    }
}

/// The largest first, as upstream lists them.
fn images(images: &[Image]) -> Vec<ContainerImage> {
    let mut images: Vec<&Image> = images.iter().collect();
    images.sort_by(|a, b| b.size.cmp(&a.size).then_with(|| a.id.cmp(&b.id)));
    images
        .into_iter()
        .take(IMAGES_MAX)
        .map(|it| ContainerImage {
            names: Some(it.digests.iter().chain(&it.tags).take(IMAGE_NAMES_MAX).cloned().collect()),
            size_bytes: i64::try_from(it.size).ok(),
        })
        .collect()
}

/// Whether they differ in more than the time of the last heartbeat.
pub(super) fn differs(a: &NodeStatus, b: &NodeStatus) -> bool {
    let still = |it: &NodeStatus| {
        let mut it = it.clone();
        for condition in it.conditions.iter_mut().flatten() {
            condition.last_heartbeat_time = None;
        }
        it
    };
    still(a) != still(b)
}

/// The lease belongs to the Node, so that it goes with it.
pub(super) fn lease(node: &Node, now: Timestamp) -> Lease {
    let name = node.metadata.name.clone().unwrap_or_default();
    Lease {
        metadata: ObjectMeta {
            name: Some(name.clone()),
            namespace: Some(LEASE_NAMESPACE.to_owned()),
            owner_references: Some(vec![OwnerReference {
                api_version: "v1".to_owned(),
                kind: "Node".to_owned(),
                name: name.clone(),
                uid: node.metadata.uid.clone().unwrap_or_default(),
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
