//! What a back end is told: the node that it runs on, and the others.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use node_api::{ClusterId, SandboxId};
use stdx::{Cidr, Family};

use crate::addresses;
use crate::records::Record;

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

/// Another node of the cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peer {
    /// The Node's name, for messages.
    pub node: String,
    pub pod_cidrs: Vec<Cidr>,
    /// Where it is in the network of the nodes.
    pub addresses: Vec<IpAddr>,
    /// Where it is reached from other networks, if it is.
    pub public_addresses: Vec<IpAddr>,
    /// By what a back end that encrypts knows it.
    pub public_key: Option<String>,
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
    /// Links on which the machine learns its way to the world from routers.
    pub(crate) advertised: BTreeSet<String>,
}

impl ThisNode {
    pub(crate) fn range(&self, family: Family) -> Option<&PodRange> {
        self.ranges.iter().find(|it| it.family() == family)
    }
}

/// The host's end of a pod's link: `veth` and eleven hexadecimal digits, as fifteen characters are
/// the most that the kernel takes. The digits are of FNV-1a, which is the same in every version of
/// this program.
pub(crate) fn link_name(sandbox: &SandboxId) -> String {
    let digest = sandbox.as_str().bytes().fold(0xcbf2_9ce4_8422_2325_u64, |digest, byte| {
        (digest ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    format!("veth{:011x}", digest >> 20)
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
            advertised: BTreeSet::new(),
        }
    }

    pub(crate) fn peer(node: &str, pod_cidrs: &[&str], addresses: &[&str]) -> Peer {
        Peer {
            node: node.into(),
            pod_cidrs: pod_cidrs.iter().map(|it| it.parse().unwrap()).collect(),
            addresses: addresses.iter().map(|it| it.parse().unwrap()).collect(),
            public_addresses: Vec::new(),
            public_key: None,
        }
    }
}
