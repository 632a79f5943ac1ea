//! `sandbox.json`: what a pod's sandbox is.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::PathBuf;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::Record;
use super::container::{IdMappings, Resources};

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SandboxRecord {
    pub(crate) config: Config,
    pub(crate) created: Timestamp,
    /// Where cgroups are, see [`crate::Config`].
    pub(crate) cgroup_root: String,
    pub(crate) log_limits: Limits,
    /// `None` until the network is attached: the sandbox is half made.
    pub(crate) addresses: Option<Vec<IpAddr>>,
}

impl Record for SandboxRecord {
    const FILE: &'static str = "sandbox.json";
}

/// Of the logs of one container.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Limits {
    /// A file that has reached it is rotated.
    pub(crate) size_max: u64,
    /// With the one that is written to.
    pub(crate) files_max: u32,
}

/// As [`node_api::sandboxes::SandboxConfig`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Config {
    pub(super) pod: Pod,
    pub(super) attempt: u32,
    pub(super) hostname: String,
    pub(super) network: Network,
    pub(super) pid: Pid,
    pub(super) ipc: Ipc,
    pub(super) dns: Option<Dns>,
    pub(super) host_ports: Vec<HostPort>,
    pub(super) sysctls: BTreeMap<String, String>,
    pub(super) cgroup: String,
    pub(super) annotations: BTreeMap<String, String>,
    #[serde(default)]
    pub(super) labels: BTreeMap<String, String>,
    #[serde(default)]
    pub(super) runtime_handler: String,
    #[serde(default)]
    pub(super) user_namespace: Option<IdMappings>,
    #[serde(default)]
    pub(super) privileged: bool,
    #[serde(default)]
    pub(super) log_directory: PathBuf,
    #[serde(default)]
    pub(super) resources: Resources,
    #[serde(default)]
    pub(super) overhead: Resources,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Pod {
    pub(super) namespace: String,
    pub(super) name: String,
    pub(super) uid: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Network {
    Pod,
    Host,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Pid {
    Container,
    Pod,
    Host,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Ipc {
    Pod,
    Host,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Dns {
    pub(super) servers: Vec<IpAddr>,
    pub(super) searches: Vec<String>,
    pub(super) options: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct HostPort {
    pub(super) protocol: Protocol,
    pub(super) host_address: Option<IpAddr>,
    pub(super) host_port: u16,
    pub(super) container_port: u16,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Protocol {
    Tcp,
    Udp,
    Sctp,
}

/// As much of a record as is needed to say whose it is, where the rest cannot be read.
#[derive(Deserialize)]
pub(crate) struct Whose {
    pub(crate) config: WhoseConfig,
}

#[derive(Deserialize)]
pub(crate) struct WhoseConfig {
    pub(crate) pod: Pod,
}

impl Record for Whose {
    const FILE: &'static str = SandboxRecord::FILE;
}
