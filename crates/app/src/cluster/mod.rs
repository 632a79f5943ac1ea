//! The clusters of this machine, which do not meet: what each is called and has, and how a new one
//! gets what nobody else has. A cluster's own directory is the truth; the registry only says where
//! directories are. See docs/adr/0015-several-clusters-on-one-machine.md.

mod choice;
mod claim;
mod name;
mod neighborhood;
mod ports;
mod registry;
mod selection;

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;

use anyhow::{Context as _, Result};
use node_api::ClusterId;
use serde::{Deserialize, Serialize};

use crate::commands::network::{Cidr, PortRange};
use crate::data_dir::write_private;

pub(crate) use choice::{NodeWishes, Wishes};
pub(crate) use claim::{Claim, claim, listen};
pub(crate) use name::Name;
pub(crate) use neighborhood::process_in_namespace_of;
pub(crate) use registry::{Known, Registry};
pub(crate) use selection::{Selection, table};

const FILE: &str = "cluster.json";
/// What a node had, before clusters had ids.
const FILE_BEFORE: &str = "node.json";
/// Addresses of one node's pods.
const NODE_PREFIX: u8 = 24;

/// What a cluster is and has. Kept in its directory, so that a restart has the same and `down
/// --purge` finds what `up` made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Cluster {
    #[serde(with = "id_as_text")]
    pub(crate) id: ClusterId,
    pub(crate) name: Name,
    /// The one it was last started in, as a number of an inode: what others have counts in the same
    /// one only.
    pub(crate) network_namespace: u64,
    pub(crate) bind_address: IpAddr,
    pub(crate) https_port: u16,
    pub(crate) service_cidr: Cidr,
    pub(crate) pod_cidr: Cidr,
    pub(crate) node_ports: PortRange,
    /// `None`: it never had one.
    pub(crate) node: Option<Node>,
}

/// The node on this machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Node {
    pub(crate) name: String,
    pub(crate) ip: Option<IpAddr>,
    pub(crate) bridge: String,
    pub(crate) cgroup_root: String,
    pub(crate) kubelet_port: u16,
}

impl Cluster {
    pub(crate) fn save(&self, data_dir: &Path) -> Result<()> {
        let json = serde_json::to_vec_pretty(self).context("encoding what the cluster has")?;
        let path = data_dir.join(FILE);
        write_private(&path, &json).with_context(|| format!("writing {}", path.display()))
    }

    /// `None`: no cluster was started on the directory yet.
    pub(crate) fn load(data_dir: &Path) -> Result<Option<Self>> {
        let path = data_dir.join(FILE);
        match std::fs::read(&path) {
            Ok(json) => serde_json::from_slice(&json)
                .map(Some)
                .with_context(|| format!("reading {}", path.display())),
            Err(err)
                if matches!(err.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) =>
            {
                anyhow::ensure!(
                    !data_dir.join(FILE_BEFORE).exists(),
                    "{} was made by a xebec from before clusters had ids: save its objects with `xebec store snapshot`, end it with that \
                     xebec's `down --purge`, and restore them",
                    data_dir.display()
                );
                Ok(None)
            }
            Err(err) => Err(err).with_context(|| format!("reading {}", path.display())),
        }
    }

    /// The node's part of the pod network: the first.
    pub(crate) fn node_cidr(&self) -> Cidr {
        let prefix_length = self.pod_cidr.prefix_length.max(NODE_PREFIX);
        Cidr { address: self.pod_cidr.address, prefix_length }
    }

    /// Where clients on this machine reach the API server.
    pub(crate) fn server(&self) -> SocketAddr {
        crate::api_server::reachable(SocketAddr::new(self.bind_address, self.https_port))
    }
}

mod id_as_text {
    use node_api::ClusterId;
    use serde::{Deserialize as _, Deserializer, Serializer, de};

    pub(super) fn serialize<S: Serializer>(id: &ClusterId, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(id)
    }

    pub(super) fn deserialize<'a, D: Deserializer<'a>>(from: D) -> Result<ClusterId, D::Error> {
        String::deserialize(from)?.parse().map_err(de::Error::custom)
    }
}
