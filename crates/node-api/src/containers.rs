//! Containers in a sandbox: what to run, how it went, and the streams into it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use bytes::Bytes;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncRead, AsyncWrite};

use crate::{ContainerId, Future, ImageId, SandboxId};

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ContainerConfig {
    pub name: String,
    /// The restart count this run is shown with.
    pub attempt: u32,
    pub image: ImageId,
    /// Empty: the image's entrypoint (and its command, if `args` is empty too).
    pub command: Vec<String>,
    pub args: Vec<String>,
    /// `None`: the image's.
    pub working_dir: Option<String>,
    /// On top of the image's; later ones win.
    pub env: Vec<(String, String)>,
    pub mounts: Vec<Mount>,
    pub stdin: bool,
    /// Closes stdin when the first attached client leaves.
    pub stdin_once: bool,
    pub tty: bool,
    /// Where output goes, in the CRI log format. Its directory is made.
    pub log_path: PathBuf,
    pub resources: Resources,
    pub security: Security,
    /// Sent by `stop` instead of the image's stop signal (or SIGTERM).
    pub stop_signal: Option<String>,
    /// A container of the same sandbox, which must run: this one is in its PID namespace, sees its
    /// processes, and ends with it. Only where each container has a PID namespace of its own.
    #[serde(default)]
    pub target: Option<ContainerId>,
    pub annotations: BTreeMap<String, String>,
    /// Shown to whoever looks at the runtime itself; nothing here reads them.
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
    #[serde(default)]
    pub devices: Vec<Device>,
    /// Names of the Container Device Interface, such as `vendor.example/gpu=0`.
    #[serde(default)]
    pub cdi_devices: Vec<String>,
}

impl ContainerConfig {
    /// Its own and those that are mounted into it.
    pub fn images(&self) -> impl Iterator<Item = &ImageId> {
        let mounted = self.mounts.iter().filter_map(|it| it.image.as_ref());
        std::iter::once(&self.image).chain(mounted.map(|it| &it.image))
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mount {
    /// Empty where `image` says what is mounted.
    pub host_path: PathBuf,
    pub container_path: String,
    pub read_only: bool,
    pub propagation: Propagation,
    /// What is mounted below `host_path` is read-only too. With `read_only` and
    /// [`Propagation::Private`] alone.
    #[serde(default)]
    pub recursive_read_only: bool,
    /// The content of an image in place of a path of the host. Always read-only.
    #[serde(default)]
    pub image: Option<ImageMount>,
    /// Owners of files as the container sees them, where its sandbox has a user namespace.
    #[serde(default)]
    pub id_mappings: Option<IdMappings>,
}

/// An image that is on the node, or a directory in it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ImageMount {
    pub image: ImageId,
    /// Relative, without `..`; empty: the image's root.
    #[serde(default)]
    pub sub_path: String,
}

/// A device of the host's; a directory stands for all devices in it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Device {
    pub host_path: PathBuf,
    pub container_path: String,
    /// Letters of `rwm`: read, write, make.
    pub permissions: String,
}

/// A range of ids in a user namespace (user_namespaces(7)).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct IdMapping {
    pub host: u32,
    pub container: u32,
    pub length: u32,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct IdMappings {
    pub uids: Vec<IdMapping>,
    pub gids: Vec<IdMapping>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Propagation {
    #[default]
    Private,
    HostToContainer,
    Bidirectional,
}

/// Limits of one cgroup. `None`: the kernel's default, that is, no limit.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Resources {
    /// cgroup v1's scale, 2 to 262144; turned into a weight on v2.
    pub cpu_shares: Option<u64>,
    pub cpu_quota: Option<CpuQuota>,
    pub memory_limit: Option<u64>,
    pub pids_limit: Option<u64>,
    /// Containers only. Not lowered where the kernel forbids it.
    pub oom_score_adj: Option<i32>,
    /// Memory and swap together, so never less than `memory_limit`. `None`: as much as
    /// `memory_limit`, that is, no swap.
    #[serde(default)]
    pub memory_swap_limit: Option<u64>,
    /// Lists as the kernel writes them, such as `0-2,7`.
    #[serde(default)]
    pub cpuset_cpus: Option<String>,
    #[serde(default)]
    pub cpuset_mems: Option<String>,
    /// Bytes by the size of a page, such as `2MB`.
    #[serde(default)]
    pub hugepage_limits: BTreeMap<String, u64>,
    /// Files of cgroup version 2 and what is written to them, such as `memory.high`; after all
    /// others.
    #[serde(default)]
    pub unified: BTreeMap<String, String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CpuQuota {
    pub quota: Duration,
    pub period: Duration,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Security {
    /// `None`: the image's user.
    pub run_as_user: Option<u32>,
    pub run_as_group: Option<u32>,
    pub supplemental_groups: Vec<u32>,
    /// Those that the image's `/etc/group` gives the user are left out.
    #[serde(default)]
    pub ignores_groups_of_image: bool,
    pub privileged: bool,
    /// Without the prefix `CAP_`; `ALL` is allowed. On top of the default set.
    pub capabilities_add: Vec<String>,
    pub capabilities_drop: Vec<String>,
    pub read_only_root: bool,
    pub no_new_privileges: bool,
    pub seccomp: Seccomp,
    /// Whether `/proc` hides what containers should not see.
    pub unmasked_proc: bool,
    #[serde(default)]
    pub apparmor: Apparmor,
    #[serde(default)]
    pub selinux: Option<Selinux>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Apparmor {
    /// The runtime's own profile, where the kernel has AppArmor.
    #[default]
    RuntimeDefault,
    Unconfined,
    /// A profile that is loaded into the kernel, by its name.
    Localhost(String),
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Selinux {
    pub user: String,
    pub role: String,
    pub kind: String,
    pub level: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Seccomp {
    #[default]
    Unconfined,
    RuntimeDefault,
    /// An OCI seccomp profile in JSON.
    Localhost(SeccompFile),
}

/// A regular file of this name below the directory, reached without any link.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "WrittenSeccompFile")]
pub struct SeccompFile {
    pub directory: PathBuf,
    pub name: String,
}

/// Containers that run were described by whichever version started them: the first knew a path
/// alone.
#[derive(Deserialize)]
#[serde(untagged)]
enum WrittenSeccompFile {
    Parts { directory: PathBuf, name: String },
    Path(PathBuf),
}

impl From<WrittenSeccompFile> for SeccompFile {
    fn from(written: WrittenSeccompFile) -> Self {
        match written {
            WrittenSeccompFile::Parts { directory, name } => Self { directory, name },
            WrittenSeccompFile::Path(path) => Self {
                directory: path.parent().map(PathBuf::from).unwrap_or_default(),
                name: path
                    .file_name()
                    .map(|it| it.to_string_lossy().into_owned())
                    .unwrap_or_default(),
            },
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Container {
    pub id: ContainerId,
    pub sandbox: SandboxId,
    pub config: ContainerConfig,
    pub created: Timestamp,
    pub state: ContainerState,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ContainerState {
    Created,
    Running { started: Timestamp },
    Exited(Exit),
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Exit {
    /// 128 + n when signal n ended it.
    pub code: i32,
    pub signal: Option<i32>,
    /// The kernel killed something in the container for want of memory.
    pub oom_killed: bool,
    /// `None` when it could not be started: `message` says why.
    pub started: Option<Timestamp>,
    pub finished: Timestamp,
    pub message: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExecRequest {
    pub command: Vec<String>,
    pub tty: bool,
    pub stdin: bool,
    pub stdout: bool,
    pub stderr: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TerminalSize {
    pub width: u16,
    pub height: u16,
}

pub type Reader = Box<dyn AsyncRead + Send + Unpin>;
pub type Writer = Box<dyn AsyncWrite + Send + Unpin>;

/// The ends of a running command's streams that were asked for. Dropping all of them kills an
/// exec'd command; a container that was attached to goes on.
pub struct Streams {
    pub stdin: Option<Writer>,
    pub stdout: Option<Reader>,
    pub stderr: Option<Reader>,
    /// With a terminal only; the latest size wins.
    pub resize: Option<tokio::sync::watch::Sender<Option<TerminalSize>>>,
    /// Resolves when the command has ended, to its exit code. Output may still be in the pipes.
    pub exit: futures_util::future::BoxFuture<'static, Result<i32, crate::Error>>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Output {
    pub code: i32,
    /// Both cut at the limit that was given.
    pub stdout: Bytes,
    pub stderr: Bytes,
}

/// A duplex byte stream to a port inside a pod.
pub trait Connection: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Connection for T {}

/// What a container or a cgroup uses. What the kernel does not count is 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Since it was made.
    pub cpu: Duration,
    /// What cannot be reclaimed at once: usage without inactive file pages.
    pub memory_working_set: u64,
    pub memory_usage: u64,
    /// Anonymous memory.
    pub memory_rss: u64,
    /// `None`: swap is not counted here.
    pub swap: Option<u64>,
    pub page_faults: u64,
    pub major_page_faults: u64,
}

/// What one container uses, at one time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContainerStats {
    pub at: Timestamp,
    pub usage: Usage,
    /// What the container has written beside its volumes.
    pub writable_layer: Option<FilesystemUsage>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FilesystemUsage {
    /// A directory on that file system.
    pub mountpoint: PathBuf,
    pub used_bytes: u64,
    pub inodes_used: u64,
}

/// Why a container cannot be another's target, in containerd's words; `None` if it can.
pub fn wrong_target(
    target: &ContainerId,
    found: Option<&Container>,
    sandbox: &SandboxId,
) -> Option<String> {
    let why = match found {
        None => format!("container {:?} does not exist", target.as_str()),
        Some(it) if it.sandbox != *sandbox => {
            format!(
                "container {:?} does not belong to sandbox {:?}",
                target.as_str(),
                sandbox.as_str()
            )
        }
        Some(it) => match it.state {
            ContainerState::Running { .. } => return None,
            ContainerState::Created => not_running(target, "CONTAINER_CREATED"),
            ContainerState::Exited(_) => not_running(target, "CONTAINER_EXITED"),
        },
    };
    Some(format!("invalid target container: {why}"))
}

fn not_running(target: &ContainerId, state: &str) -> String {
    format!("container {:?} is not running - in state {state}", target.as_str())
}

pub trait Containers: Send + Sync {
    /// Prepares the container's root and cgroup; nothing runs yet.
    fn create(&self, sandbox: &SandboxId, config: ContainerConfig) -> Future<'_, ContainerId>;
    /// Returns when the program was executed. `Error::Refused` says why it was not; the container
    /// is then `Exited` with code 128 and that message.
    fn start(&self, id: &ContainerId) -> Future<'_, ()>;
    /// The stop signal, then after `grace` SIGKILL to everything in it. Returns when it has exited.
    fn stop(&self, id: &ContainerId, grace: Duration) -> Future<'_, ()>;
    /// Kills it if need be; forgets it and removes its writable layer. Logs stay.
    fn remove(&self, id: &ContainerId) -> Future<'_, ()>;
    /// In the order of their creation; `None`: of all sandboxes.
    fn list(&self, sandbox: Option<&SandboxId>) -> Vec<Container>;
    fn get(&self, id: &ContainerId) -> Option<Container>;
    /// Changes the limits of a container that runs, at once; what is `None` is lifted.
    fn update_resources(&self, id: &ContainerId, resources: Resources) -> Future<'_, ()>;
    /// What is in force now, read back. What was only rounded (memory to pages, shares to a weight)
    /// is given as it was asked for.
    fn resources(&self, id: &ContainerId) -> Future<'_, Resources>;
    fn exec(&self, id: &ContainerId, request: ExecRequest) -> Future<'_, Streams>;
    /// Runs without stdin to its end, or kills it after `timeout` (then `Error::TimedOut`). Keeps
    /// at most `limit` bytes of each stream.
    fn exec_output(
        &self,
        id: &ContainerId,
        command: Vec<String>,
        timeout: Duration,
        limit: usize,
    ) -> Future<'_, Output>;
    /// `request.command` is empty. Output from now on.
    fn attach(&self, id: &ContainerId, request: ExecRequest) -> Future<'_, Streams>;
    /// Connects to 127.0.0.1:`port` inside the sandbox's network.
    fn connect(&self, sandbox: &SandboxId, port: u16) -> Future<'_, Box<dyn Connection>>;
    fn usage(&self, id: &ContainerId) -> Future<'_, Usage>;
    fn stats(&self, id: &ContainerId) -> Future<'_, ContainerStats>;
    /// Goes on with a new file at the log's path, once the old one was renamed. Refused where the
    /// runtime rotates logs itself.
    fn reopen_log(&self, id: &ContainerId) -> Future<'_, ()> {
        let _ = id;
        crate::refused("reopening a container's log")
    }
    /// Writes the state of a running container to a file.
    fn checkpoint(&self, id: &ContainerId, location: &Path) -> Future<'_, ()> {
        let _ = (id, location);
        crate::refused("checkpointing a container")
    }
}
