//! `container.json`: what a container is. Written last: a directory without it is half made.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::Record;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ContainerRecord {
    pub(crate) config: Config,
    pub(crate) created: Timestamp,
    /// The configuration's, else the image's, else SIGTERM.
    pub(crate) stop_signal: i32,
    /// Below the root for pods, as [`node_api::Cgroups`] names them.
    pub(crate) cgroup: String,
    /// The image's, uppermost first.
    pub(crate) layers: Vec<PathBuf>,
}

impl Record for ContainerRecord {
    const FILE: &'static str = "container.json";
}

/// What the holder keeps of it. No more: children that the holder forks have a copy of its memory,
/// which others in the container may be able to read, and an environment has secrets that are not
/// for the pod's other containers.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub(crate) struct HeldRecord {
    pub(crate) config: HeldConfig,
    pub(crate) cgroup: String,
    pub(crate) layers: Vec<PathBuf>,
}

impl Record for HeldRecord {
    const FILE: &'static str = ContainerRecord::FILE;
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub(crate) struct HeldConfig {
    pub(crate) log_path: PathBuf,
    pub(crate) stdin: bool,
    pub(crate) stdin_once: bool,
    pub(crate) tty: bool,
    #[serde(default)]
    pub(crate) target: Option<String>,
}

/// As [`node_api::containers::ContainerConfig`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Config {
    pub(super) name: String,
    pub(super) attempt: u32,
    pub(super) image: String,
    pub(super) command: Vec<String>,
    pub(super) args: Vec<String>,
    pub(super) working_dir: Option<String>,
    pub(super) env: Vec<(String, String)>,
    pub(super) mounts: Vec<Mount>,
    pub(super) stdin: bool,
    pub(super) stdin_once: bool,
    pub(super) tty: bool,
    pub(super) log_path: PathBuf,
    pub(super) resources: Resources,
    pub(super) security: Security,
    pub(super) stop_signal: Option<String>,
    #[serde(default)]
    pub(super) target: Option<String>,
    pub(super) annotations: BTreeMap<String, String>,
    #[serde(default)]
    pub(super) labels: BTreeMap<String, String>,
    #[serde(default)]
    pub(super) devices: Vec<Device>,
    #[serde(default)]
    pub(super) cdi_devices: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Device {
    pub(super) host_path: PathBuf,
    pub(super) container_path: String,
    pub(super) permissions: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Mount {
    pub(super) host_path: PathBuf,
    pub(super) container_path: String,
    pub(super) read_only: bool,
    pub(super) propagation: Propagation,
    #[serde(default)]
    pub(super) recursive_read_only: bool,
    #[serde(default)]
    pub(super) image: Option<ImageMount>,
    #[serde(default)]
    pub(super) id_mappings: Option<IdMappings>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ImageMount {
    pub(super) image: String,
    pub(super) sub_path: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct IdMapping {
    pub(super) host: u32,
    pub(super) container: u32,
    pub(super) length: u32,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct IdMappings {
    pub(super) uids: Vec<IdMapping>,
    pub(super) gids: Vec<IdMapping>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Propagation {
    Private,
    HostToContainer,
    Bidirectional,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Resources {
    pub(super) cpu_shares: Option<u64>,
    pub(super) cpu_quota: Option<CpuQuota>,
    pub(super) memory_limit: Option<u64>,
    pub(super) pids_limit: Option<u64>,
    pub(super) oom_score_adj: Option<i32>,
    #[serde(default)]
    pub(super) memory_swap_limit: Option<u64>,
    #[serde(default)]
    pub(super) cpuset_cpus: Option<String>,
    #[serde(default)]
    pub(super) cpuset_mems: Option<String>,
    #[serde(default)]
    pub(super) hugepage_limits: BTreeMap<String, u64>,
    #[serde(default)]
    pub(super) unified: BTreeMap<String, String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct CpuQuota {
    pub(super) quota: Duration,
    pub(super) period: Duration,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Security {
    pub(super) run_as_user: Option<u32>,
    pub(super) run_as_group: Option<u32>,
    pub(super) supplemental_groups: Vec<u32>,
    #[serde(default)]
    pub(super) ignores_groups_of_image: bool,
    pub(super) privileged: bool,
    pub(super) capabilities_add: Vec<String>,
    pub(super) capabilities_drop: Vec<String>,
    pub(super) read_only_root: bool,
    pub(super) no_new_privileges: bool,
    pub(super) seccomp: Seccomp,
    pub(super) unmasked_proc: bool,
    #[serde(default)]
    pub(super) apparmor: Apparmor,
    #[serde(default)]
    pub(super) selinux: Option<Selinux>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Apparmor {
    #[default]
    RuntimeDefault,
    Unconfined,
    Localhost(String),
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Selinux {
    pub(super) user: String,
    pub(super) role: String,
    pub(super) kind: String,
    pub(super) level: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Seccomp {
    Unconfined,
    RuntimeDefault,
    Localhost(SeccompFile),
}

/// The first that was ever written was a path alone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub(super) enum SeccompFile {
    Parts { directory: PathBuf, name: String },
    Path(PathBuf),
}
