//! The namespaces of one pod, held by one process that outlives the kubelet.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::PathBuf;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use tokio::sync::watch;

use crate::containers::{IdMappings, Resources, Usage};
use crate::network::{self, HostPort};
use crate::{ContainerId, Future, PodRef, SandboxId};

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SandboxConfig {
    pub pod: PodRef,
    /// Counts the sandboxes of one pod, from 0.
    pub attempt: u32,
    pub hostname: String,
    pub network: NetworkNamespace,
    pub pid: PidNamespace,
    pub ipc: IpcNamespace,
    /// What `/etc/resolv.conf` in the containers says; `None`: a copy of the node's.
    pub dns: Option<Dns>,
    pub host_ports: Vec<HostPort>,
    pub sysctls: BTreeMap<String, String>,
    /// The pod's cgroup; containers are made below it. As [`crate::Cgroups`] names it.
    pub cgroup: String,
    /// Kept with the sandbox and given back by `list`: how a kubelet that starts again finds what
    /// it needs to know.
    pub annotations: BTreeMap<String, String>,
    /// Shown to whoever looks at the runtime itself; nothing here reads them.
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
    /// Which of the runtime's ways to run containers (a RuntimeClass's handler); empty: its own
    /// choice.
    #[serde(default)]
    pub runtime_handler: String,
    /// Ids of a user namespace of the pod's own; `None`: the host's.
    #[serde(default)]
    pub user_namespace: Option<IdMappings>,
    /// A container in it may be privileged: some runtimes want to know before.
    #[serde(default)]
    pub privileged: bool,
    /// The directory that the containers' logs are below; empty: anywhere.
    #[serde(default)]
    pub log_directory: PathBuf,
    /// What the pod's containers may use in all, and what the pod costs beside them: for runtimes
    /// that set a machine aside for each pod. Others have the pod's cgroup for it.
    #[serde(default)]
    pub resources: Resources,
    #[serde(default)]
    pub overhead: Resources,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum NetworkNamespace {
    #[default]
    Pod,
    Host,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum PidNamespace {
    /// One for each container.
    #[default]
    Container,
    /// One for all containers of the pod (`shareProcessNamespace`).
    Pod,
    Host,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum IpcNamespace {
    #[default]
    Pod,
    Host,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Dns {
    pub servers: Vec<IpAddr>,
    pub searches: Vec<String>,
    pub options: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sandbox {
    pub id: SandboxId,
    pub config: SandboxConfig,
    pub created: Timestamp,
    pub state: SandboxState,
    /// The pod's addresses; empty with the host's network.
    pub addresses: Vec<IpAddr>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SandboxState {
    Ready,
    /// Stopped, or its holder died: nothing of it runs any more.
    NotReady,
}

/// Something changed; read the state to see what.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A container started or exited.
    Container { pod: PodRef, sandbox: SandboxId, container: ContainerId },
    /// The sandbox's holder is gone.
    Sandbox { pod: PodRef, sandbox: SandboxId },
    /// The sandbox's holder lives and does not answer: what is shown of it is what was last known.
    Silent { pod: PodRef, sandbox: SandboxId },
    /// The reader was too slow and missed some: look at everything.
    Missed,
}

/// Bounded: a slow reader is told [`Event::Missed`].
pub type Events = futures_util::stream::BoxStream<'static, Event>;

/// Who runs the containers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Version {
    /// The prefix of container ids in a pod's status: `containerd` in `containerd://...`.
    pub name: String,
    pub version: String,
    pub api_version: String,
}

/// Whether it can run them. How the pods' network is, [`Sandboxes::network`] says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Status {
    /// Why nothing can be started now, in words.
    pub fault: Option<String>,
    /// By name; the runtime's own choice has the empty one.
    pub handlers: BTreeMap<String, Handler>,
}

/// What one way to run containers can do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Handler {
    pub recursive_read_only_mounts: bool,
    pub user_namespaces: bool,
}

/// One of CRI's two conditions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Condition {
    pub kind: &'static str,
    pub is_true: bool,
    pub message: String,
}

/// `RuntimeReady` and `NetworkReady`, as CRI has them.
pub fn conditions(status: &Status, network: &network::Status) -> [Condition; 2] {
    let condition = |kind, fault: Option<String>| Condition {
        kind,
        is_true: fault.is_none(),
        message: fault.unwrap_or_default(),
    };
    [
        condition("RuntimeReady", status.fault.clone()),
        condition("NetworkReady", network.not_ready()),
    ]
}

/// What a pod uses beside what its containers do, at one time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SandboxStats {
    pub at: Timestamp,
    /// Of the pod's cgroup, so with its containers.
    pub usage: Usage,
    /// Empty with the host's network.
    pub interfaces: Vec<InterfaceUsage>,
    pub n_processes: u64,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InterfaceUsage {
    pub name: String,
    pub received: Traffic,
    pub sent: Traffic,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    pub bytes: u64,
    pub errors: u64,
}

pub trait Sandboxes: Send + Sync {
    fn version(&self) -> Version;
    /// Follows it from now on.
    fn status(&self) -> watch::Receiver<Status>;
    /// Returns when the namespaces exist and the network is attached. On an error nothing is left
    /// behind.
    fn create(&self, config: SandboxConfig) -> Future<'_, Sandbox>;
    /// Kills what still runs in it, detaches the network, ends the holder. Its containers can still
    /// be listed.
    fn stop(&self, id: &SandboxId) -> Future<'_, ()>;
    /// Stops it if need be and forgets it, its containers and their files (logs stay).
    fn remove(&self, id: &SandboxId) -> Future<'_, ()>;
    /// In the order of their creation.
    fn list(&self) -> Vec<Sandbox>;
    fn events(&self) -> Events;
    /// How the pods' network is.
    fn network(&self) -> watch::Receiver<network::Status>;
    fn stats(&self, id: &SandboxId) -> Future<'_, SandboxStats>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_say_what_is_wrong() {
        let check = |fault: Option<&str>, network: Option<&str>, expected: &str| {
            let status = Status { fault: fault.map(str::to_owned), ..Status::default() };
            let network =
                network::Status { fault: network.map(str::to_owned), ..Default::default() };
            let shown = conditions(&status, &network)
                .map(|it| format!("{} {} {:?}", it.kind, it.is_true, it.message));
            assert_eq!(shown.join(", "), expected);
        };
        check(None, None, r#"RuntimeReady true "", NetworkReady true """#);
        let silent = r#"RuntimeReady false "it is silent", NetworkReady false "no bridge""#;
        check(Some("it is silent"), Some("no bridge"), silent);
    }
}
