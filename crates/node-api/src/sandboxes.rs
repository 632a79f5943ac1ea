//! The namespaces of one pod, held by one process that outlives the kubelet.

use std::collections::BTreeMap;
use std::net::IpAddr;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use tokio::sync::watch;

use crate::network::{self, HostPort};
use crate::{ContainerId, Future, PodRef, SandboxId};

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
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
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum NetworkNamespace {
    Pod,
    Host,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum PidNamespace {
    /// One for each container.
    Container,
    /// One for all containers of the pod (`shareProcessNamespace`).
    Pod,
    Host,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum IpcNamespace {
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
    /// The reader was too slow and missed some: look at everything.
    Missed,
}

/// Bounded: a slow reader is told [`Event::Missed`].
pub type Events = futures_util::stream::BoxStream<'static, Event>;

pub trait Sandboxes: Send + Sync {
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
}
