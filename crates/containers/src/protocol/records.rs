//! What is written beside a sandbox and a container: by `xebec`, for the holder and for the next
//! `xebec`.

use std::net::IpAddr;
use std::path::PathBuf;

use jiff::Timestamp;
use node_api::containers::ContainerConfig;
use node_api::sandboxes::SandboxConfig;
use serde::{Deserialize, Serialize};

/// `sandbox.json`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SandboxRecord {
    pub(crate) config: SandboxConfig,
    pub(crate) created: Timestamp,
    /// Where cgroups are, see [`crate::Config`].
    pub(crate) cgroup_root: String,
    pub(crate) log_limits: Limits,
    /// `None` until the network is attached: the sandbox is half made.
    pub(crate) addresses: Option<Vec<IpAddr>>,
}

/// Of the logs of one container.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Limits {
    /// A file that has reached it is rotated.
    pub(crate) size_max: u64,
    /// With the one that is written to.
    pub(crate) files_max: u32,
}

/// `container.json`. Written last: a directory without it is half made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ContainerRecord {
    pub(crate) config: ContainerConfig,
    pub(crate) created: Timestamp,
    /// The configuration's, else the image's, else SIGTERM.
    pub(crate) stop_signal: i32,
    /// Below the root for pods, as [`node_api::Cgroups`] names them.
    pub(crate) cgroup: String,
    /// The image's, uppermost first.
    pub(crate) layers: Vec<PathBuf>,
}

/// What the holder keeps of it. No more: children that the holder forks have a copy of its memory,
/// which others in the container may be able to read, and an environment has secrets that are not
/// for the pod's other containers.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct HeldRecord {
    pub(crate) config: HeldConfig,
    pub(crate) cgroup: String,
    pub(crate) layers: Vec<PathBuf>,
}

#[derive(Clone, Debug, Deserialize)]
pub(crate) struct HeldConfig {
    pub(crate) log_path: PathBuf,
    pub(crate) stdin: bool,
    pub(crate) stdin_once: bool,
    pub(crate) tty: bool,
    #[serde(default)]
    pub(crate) target: Option<String>,
}
