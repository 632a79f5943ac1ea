//! The further nodes of a machine, as they are kept: which there are, and the network that joins
//! them to the machine. Pure.

use std::net::IpAddr;

use node_api::ClusterId;
use serde::{Deserialize, Serialize};

use crate::commands::network::Cidrs;
use crate::node;

/// Beside the one that `xebec up` itself is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct LocalNodes {
    /// Addresses of the network between them, of each family one range: the machine has the first
    /// address of it.
    #[serde(rename = "cidr")]
    pub(crate) ranges: Cidrs,
    pub(crate) nodes: Vec<LocalNode>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LocalNode {
    /// Kept, since the first node may be called otherwise later.
    pub(crate) name: String,
    /// From 2 on: which of the machine's nodes it is, and which address of the ranges it has.
    pub(crate) number: u8,
}

/// The first node's number, which is the machine itself.
const MACHINE: u8 = 1;

impl LocalNodes {
    /// Of the machine itself.
    pub(crate) fn gateways(&self) -> Vec<IpAddr> {
        self.addresses(MACHINE)
    }

    pub(crate) fn addresses(&self, number: u8) -> Vec<IpAddr> {
        self.ranges.nth(number.into())
    }
}

impl LocalNode {
    /// What the n-th node is called beside this one.
    pub(super) fn beside(name: &str, number: u8) -> Self {
        Self { name: format!("{name}-{number}"), number }
    }
}

/// The group of the links that join a cluster's nodes. Another one than that of the pod network,
/// which takes whatever is in its group for its own.
pub(crate) fn switch_group(cluster: ClusterId) -> u32 {
    node::derive_id(cluster.to_string().as_bytes(), "switch").link_group()
}
