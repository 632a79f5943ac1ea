//! Containers in a sandbox: what to run, how it went, and the streams into it.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use bytes::Bytes;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncRead, AsyncWrite};

use crate::{ContainerId, Future, ImageId, SandboxId};

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
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
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mount {
    pub host_path: PathBuf,
    pub container_path: String,
    pub read_only: bool,
    pub propagation: Propagation,
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

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    pub cpu: Duration,
    pub memory_working_set: u64,
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
    fn update_resources(&self, id: &ContainerId, resources: Resources) -> Future<'_, ()>;
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
}
