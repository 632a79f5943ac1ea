//! The OCI runtime configuration (`config.json`), as far as Kubernetes can ask for it, and how it
//! is made from what a kubelet wants. Reference: github.com/opencontainers/runtime-spec, config.md
//! and config-linux.md.

mod defaults;
mod devices;
mod machine;
mod refusals;
mod render;
mod seccomp;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

pub use devices::{Allowed, find as find_devices};
pub use machine::Machine;
pub use refusals::of_sandbox as refuse_sandbox;
pub(crate) use refusals::{HANDLERS, NAME};
pub use render::{Inputs, render};
pub(crate) use render::{isolated_sysctls, not_isolated};
pub use seccomp::{Error as SeccompError, Seccomp, SeccompArgument, SeccompSyscall};
use serde::{Deserialize, Serialize};

/// The type of a mount whose layers are the options that start with [`LAYER`], uppermost first, and
/// whose source is the path in it. Not OCI's.
pub(crate) const IMAGE: &str = "xebec.dev/image";
pub(crate) const LAYER: &str = "xebec.dev/layer=";

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Spec {
    pub oci_version: String,
    pub process: Process,
    pub root: Root,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub hostname: String,
    #[serde(default)]
    pub mounts: Vec<Mount>,
    #[serde(default)]
    pub linux: Linux,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Process {
    #[serde(default)]
    pub terminal: bool,
    pub user: User,
    pub args: Vec<String>,
    /// `NAME=value`.
    #[serde(default)]
    pub env: Vec<String>,
    pub cwd: String,
    #[serde(default)]
    pub capabilities: Capabilities,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rlimits: Vec<Rlimit>,
    #[serde(default)]
    pub no_new_privileges: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub oom_score_adj: Option<i32>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct User {
    pub uid: u32,
    pub gid: u32,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub additional_gids: Vec<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub umask: Option<u32>,
    /// `user`, `uid`, `user:group` and so on, as images say it. Looked up at set-up in the image's
    /// own `/etc/passwd` and `/etc/group`; the numbers above are used where it is empty. OCI has
    /// this field for Windows alone.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub username: String,
    /// Wins over the group that the image's user has.
    #[serde(default, skip_serializing_if = "Option::is_none", rename = "xebec.dev/group")]
    pub group: Option<u32>,
    /// No groups but those above (`supplementalGroupsPolicy: Strict`).
    #[serde(default, rename = "xebec.dev/ignores-groups-of-image")]
    pub ignores_groups_of_image: bool,
}

/// Names with the prefix `CAP_`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Capabilities {
    #[serde(default)]
    pub bounding: Vec<String>,
    #[serde(default)]
    pub effective: Vec<String>,
    #[serde(default)]
    pub inheritable: Vec<String>,
    #[serde(default)]
    pub permitted: Vec<String>,
    #[serde(default)]
    pub ambient: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rlimit {
    /// Such as `RLIMIT_NOFILE`.
    #[serde(rename = "type")]
    pub kind: String,
    pub soft: u64,
    pub hard: u64,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Root {
    /// An empty directory; the image's layers are mounted on it, in the container's mount namespace
    /// alone.
    pub path: String,
    #[serde(default)]
    pub readonly: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mount {
    pub destination: String,
    #[serde(rename = "type", default, skip_serializing_if = "String::is_empty")]
    pub kind: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub source: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub options: Vec<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Linux {
    #[serde(default)]
    pub namespaces: Vec<Namespace>,
    #[serde(default)]
    pub resources: Resources,
    /// In every hierarchy, from its root.
    #[serde(default)]
    pub cgroups_path: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seccomp: Option<Seccomp>,
    #[serde(default)]
    pub masked_paths: Vec<String>,
    #[serde(default)]
    pub readonly_paths: Vec<String>,
    #[serde(default)]
    pub devices: Vec<Device>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub sysctl: BTreeMap<String, String>,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub rootfs_propagation: String,
}

/// A namespace without a path is a new one. Those of the pod (network, IPC, UTS) are the holder's
/// own: they are named with no path being needed, because the holder's children are in them
/// already.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Namespace {
    #[serde(rename = "type")]
    pub kind: NamespaceKind,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub path: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum NamespaceKind {
    Cgroup,
    Ipc,
    Mount,
    Network,
    Pid,
    Uts,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Device {
    pub path: String,
    /// `c` or `b`.
    #[serde(rename = "type")]
    pub kind: char,
    pub major: u32,
    pub minor: u32,
    /// Permission bits.
    pub file_mode: u32,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Resources {
    #[serde(default)]
    pub devices: Vec<DeviceRule>,
    #[serde(default)]
    pub cpu: Cpu,
    #[serde(default)]
    pub memory: Memory,
    #[serde(default)]
    pub pids: Pids,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hugepage_limits: Vec<HugepageLimit>,
    /// Files of cgroup version 2.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub unified: BTreeMap<String, String>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HugepageLimit {
    /// Such as `2MB`.
    pub page_size: String,
    pub limit: u64,
}

/// What may be opened or made. Later rules win; where a number is `None`, all of them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceRule {
    pub allow: bool,
    /// `a`, `b` or `c`.
    #[serde(rename = "type", default = "any_device")]
    pub kind: char,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub major: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub minor: Option<u32>,
    /// Of `rwm`.
    pub access: String,
}

fn any_device() -> char {
    'a'
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cpu {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shares: Option<u64>,
    /// Microseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quota: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub period: Option<u64>,
    /// Such as `0-2,7`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpus: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mems: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Memory {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<i64>,
    /// Memory and swap together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub swap: Option<i64>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pids {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<i64>,
}

impl Spec {
    /// Whether a new namespace of this kind is wanted.
    pub fn has_new(&self, kind: NamespaceKind) -> bool {
        self.linux.namespaces.iter().any(|it| it.kind == kind && it.path.is_empty())
    }
}
