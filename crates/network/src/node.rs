//! What a back end is told: the node that it runs on, and the others.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use node_api::{ClusterId, SandboxId};
use stdx::{Cidr, Family};

use crate::addresses;
use crate::keys::Keys;
use crate::probes::Uplink;
use crate::records::Record;
use crate::speaker::Heard;

/// Addresses of pods, of one family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PodRange {
    /// This node's; its first address is the gateway's.
    pub node: Cidr,
    /// All pods of the cluster: traffic to them is not masqueraded.
    pub cluster: Cidr,
}

impl PodRange {
    pub(crate) fn family(&self) -> Family {
        self.node.family()
    }

    pub(crate) fn gateway(&self) -> IpAddr {
        addresses::gateway(self.node)
    }
}

/// A Node of the cluster, as its object says; this one is known by its name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Peer {
    /// The Node's name.
    pub node: String,
    pub pod_cidrs: Vec<Cidr>,
    /// Where it is in the network of the nodes.
    pub addresses: Vec<IpAddr>,
    /// What it says of itself to others ([`crate::Network::published`]). Nobody has looked at it
    /// yet.
    pub annotations: BTreeMap<String, String>,
    /// It works, as far as the API knows: then the way to it is tried.
    pub is_ready: bool,
}

impl Peer {
    /// Its address of the family, in the network of the nodes.
    pub(crate) fn address(&self, family: Family) -> Option<IpAddr> {
        self.addresses.iter().copied().find(|it| Family::of(*it) == family)
    }
}

#[derive(Clone, Debug)]
pub(crate) struct ThisNode {
    pub(crate) cluster: ClusterId,
    pub(crate) bridge: String,
    pub(crate) ranges: Vec<PodRange>,
    pub(crate) pods: BTreeMap<SandboxId, Record>,
    /// Of pods' links.
    pub(crate) mtu: u32,
    /// Where peers find it: what it says of itself, and what is really its own; of each family at
    /// the most one.
    pub(crate) public: Vec<IpAddr>,
    pub(crate) local: Vec<IpAddr>,
    /// Of a back end that encrypts.
    pub(crate) keys: Option<Keys>,
    /// Of a back end that speaks BGP.
    pub(crate) heard: Heard,
    /// Peers on a network of this node are reached without a tunnel.
    pub(crate) has_direct_routes: bool,
    pub(crate) surroundings: Surroundings,
}

/// What is around the pod network in its network namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Surroundings {
    /// The largest packet that leaves by the way to other nodes.
    pub(crate) mtu: Option<u32>,
    /// The links of that way.
    pub(crate) uplinks: BTreeSet<Uplink>,
    /// Where packets for the world leave from, of each family that has a way there.
    pub(crate) world: Vec<IpAddr>,
    /// Ranges and addresses that others have, and what they are.
    pub(crate) networks: BTreeMap<Cidr, String>,
    /// All addresses of this machine.
    pub(crate) addresses: BTreeSet<IpAddr>,
    /// Networks of links that are not ours: who is there needs no router.
    pub(crate) connected: BTreeSet<Cidr>,
    /// Names of links of this cluster, and of others.
    pub(crate) own_links: BTreeSet<String>,
    pub(crate) other_links: BTreeSet<String>,
    /// Numbers that VXLAN links of others have.
    pub(crate) other_vnis: BTreeSet<u32>,
    /// Links on which the machine learns its way to the world from routers.
    pub(crate) advertised: BTreeSet<String>,
}

impl ThisNode {
    pub(crate) fn range(&self, family: Family) -> Option<&PodRange> {
        self.ranges.iter().find(|it| it.family() == family)
    }

    pub(crate) fn public(&self, family: Family) -> Option<IpAddr> {
        self.public.iter().copied().find(|it| Family::of(*it) == family)
    }

    pub(crate) fn local(&self, family: Family) -> Option<IpAddr> {
        self.local.iter().copied().find(|it| Family::of(*it) == family)
    }

    /// Whether no router is between it and this node.
    pub(crate) fn is_connected_to(&self, address: IpAddr) -> bool {
        self.surroundings.connected.iter().any(|it| it.contains(address))
    }
}

/// FNV-1a, which is the same in every version of this program.
pub(crate) fn digest(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |digest, byte| {
        (digest ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// With ranges of both families, and no pods.
    pub(crate) fn node() -> ThisNode {
        let range = |node: &str, cluster: &str| PodRange {
            node: node.parse().unwrap(),
            cluster: cluster.parse().unwrap(),
        };
        ThisNode {
            cluster: "00c0ffee".parse().unwrap(),
            bridge: "xebec0".into(),
            ranges: vec![
                range("10.244.1.0/24", "10.244.0.0/16"),
                range("fd00:10:244:1::/64", "fd00:10:244::/56"),
            ],
            pods: BTreeMap::new(),
            mtu: 1450,
            public: ["192.0.2.1", "fd00:2::1"].map(|it| it.parse().unwrap()).into(),
            local: ["192.0.2.1", "fd00:2::1"].map(|it| it.parse().unwrap()).into(),
            keys: None,
            heard: Heard::default(),
            has_direct_routes: false,
            surroundings: Surroundings {
                connected: ["192.0.2.0/24", "fd00:2::/64"].map(|it| it.parse().unwrap()).into(),
                ..Surroundings::default()
            },
        }
    }

    pub(crate) fn peer(node: &str, pod_cidrs: &[&str], addresses: &[&str]) -> Peer {
        Peer {
            node: node.into(),
            pod_cidrs: pod_cidrs.iter().map(|it| it.parse().unwrap()).collect(),
            addresses: addresses.iter().map(|it| it.parse().unwrap()).collect(),
            annotations: BTreeMap::new(),
            is_ready: false,
        }
    }
}
