//! What of a Node concerns the ways between nodes.

use std::collections::BTreeMap;
use std::net::IpAddr;

use api::core::node::Node;
use api::{Stored, View};
use apimachinery::GroupVersionResource;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{NodeAddress, NodeCondition};
use network::Peer;
use serde::Deserialize;

pub(super) const CONDITION: &str = "NetworkUnavailable";
const READY: &str = "Ready";
const INTERNAL: &str = "InternalIP";
/// One of each family is one too many to be sure.
const ADDRESSES_MAX: usize = 16;
const RANGES_MAX: usize = 4;

/// Without what nobody here reads.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct NodePlace {
    pub(super) name: String,
    pub(super) uid: String,
    pub(super) created: Option<Timestamp>,
    pub(super) pod_cidrs: Vec<String>,
    pub(super) addresses: Vec<IpAddr>,
    /// Those of the ways between nodes.
    pub(super) annotations: BTreeMap<String, String>,
    /// Whether it says that it has no network, and why.
    pub(super) condition: Option<NodeCondition>,
    pub(super) is_ready: bool,
}

#[derive(Default, Deserialize)]
struct Parts {
    #[serde(default)]
    metadata: Metadata,
    #[serde(default)]
    spec: Spec,
    #[serde(default)]
    status: Status,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metadata {
    creation_timestamp: Option<Timestamp>,
    annotations: Option<BTreeMap<String, String>>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Spec {
    #[serde(rename = "podCIDR")]
    pod_cidr: Option<String>,
    #[serde(rename = "podCIDRs")]
    pod_cidrs: Option<Vec<String>>,
}

#[derive(Default, Deserialize)]
struct Status {
    conditions: Option<Vec<NodeCondition>>,
    addresses: Option<Vec<NodeAddress>>,
}

impl View for NodePlace {
    fn resource() -> GroupVersionResource {
        <Node as View>::resource()
    }

    fn read(stored: &Stored) -> Result<Self, serde_json::Error> {
        let Parts { metadata, spec, status } = serde_json::from_slice(&stored.bytes)?;
        let one = || spec.pod_cidr.into_iter().filter(|it| !it.is_empty()).collect();
        let annotations = metadata.annotations.unwrap_or_default().into_iter();
        let addresses = status.addresses.unwrap_or_default().into_iter();
        let internal = addresses.filter(|it| it.type_ == INTERNAL);
        let conditions = status.conditions.unwrap_or_default();
        let is_ready = |it: &NodeCondition| it.type_ == READY && it.status == "True";
        Ok(Self {
            is_ready: conditions.iter().any(is_ready),
            name: stored.meta.key.name.clone(),
            uid: stored.meta.uid.clone(),
            created: metadata.creation_timestamp,
            pod_cidrs: spec.pod_cidrs.filter(|it| !it.is_empty()).unwrap_or_else(one),
            addresses: internal
                .filter_map(|it| it.address.parse().ok())
                .take(ADDRESSES_MAX)
                .collect(),
            annotations: annotations.filter(|(name, _)| network::concerns(name)).collect(),
            condition: conditions.into_iter().find(|it| it.type_ == CONDITION),
        })
    }
}

impl NodePlace {
    /// A range that is none was let through by nobody.
    pub(super) fn as_peer(&self) -> Peer {
        let ranges = self.pod_cidrs.iter().take(RANGES_MAX);
        Peer {
            node: self.name.clone(),
            pod_cidrs: ranges.filter_map(|it| it.parse().ok()).collect(),
            addresses: self.addresses.clone(),
            annotations: self.annotations.clone(),
            is_ready: self.is_ready,
        }
    }
}
