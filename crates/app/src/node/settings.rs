//! What a node was started with. Kept in the data directory, so that `down --purge` finds what `up` made.

use std::net::{IpAddr, Ipv4Addr};
use std::num::NonZeroU32;
use std::path::Path;

use anyhow::{Context as _, Result};
use linux::sysctl::Pattern;
use node_api::ClusterId;
use serde::{Deserialize, Serialize};

use crate::commands::network::Cidr;
use crate::data_dir::write_private;

const FILE: &str = "node.json";
/// `xebe`.
const CLUSTER: NonZeroU32 = NonZeroU32::new(0x7865_6265).expect("it is not zero");
/// Addresses of one node's pods.
const NODE_PREFIX: u8 = 24;

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Settings {
    pub(crate) node_name: String,
    pub(crate) node_ip: Option<IpAddr>,
    pub(crate) bridge: String,
    pub(crate) pod_cidr: Cidr,
    pub(crate) service_cidr: Cidr,
    pub(crate) cgroup_root: String,
    pub(crate) kubelet_port: u16,
    /// For this start alone: nothing has to be found again by it.
    #[serde(skip)]
    pub(crate) allowed_unsafe_sysctls: Vec<Pattern>,
}

impl Settings {
    /// This node's part of the pod network: the first.
    pub(crate) fn node_cidr(&self) -> Cidr {
        let prefix_length = self.pod_cidr.prefix_length.max(NODE_PREFIX);
        Cidr { address: self.pod_cidr.address, prefix_length }
    }

    /// Which cluster of this machine it is.
    pub(crate) fn cluster(&self) -> ClusterId {
        ClusterId::new(CLUSTER)
    }

    /// The tenth address of the Services, as everywhere.
    pub(crate) fn dns_address(&self) -> Ipv4Addr {
        Ipv4Addr::from(u32::from(self.service_cidr.address) + 10)
    }

    /// The one that was given, else the one the machine sends from, else the bridge's: a machine without a network.
    pub(crate) fn node_address(&self, gateway: Ipv4Addr) -> IpAddr {
        self.node_ip.or_else(super::machine::address).unwrap_or(IpAddr::V4(gateway))
    }

    pub(crate) fn save(&self, data_dir: &Path) -> Result<()> {
        let json = serde_json::to_vec_pretty(self).context("encoding the node's settings")?;
        let path = data_dir.join(FILE);
        write_private(&path, &json).with_context(|| format!("writing {}", path.display()))
    }

    /// `None`: there never was a node.
    pub(crate) fn load(data_dir: &Path) -> Result<Option<Self>> {
        let path = data_dir.join(FILE);
        match std::fs::read(&path) {
            Ok(json) => serde_json::from_slice(&json)
                .map(Some)
                .with_context(|| format!("reading {}", path.display())),
            Err(err) if err.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(err) => Err(err).with_context(|| format!("reading {}", path.display())),
        }
    }
}

/// The host's name as a DNS label, as kubelets use it.
pub(crate) fn node_name() -> String {
    let name = rustix::system::uname().nodename().to_string_lossy().to_ascii_lowercase();
    let is_plain = |it: char| it.is_ascii_alphanumeric() || it == '-' || it == '.';
    let name: String = name.chars().map(|it| if is_plain(it) { it } else { '-' }).collect();
    let name = name.trim_matches(['-', '.']);
    if name.is_empty() { "node".to_owned() } else { name.to_owned() }
}
