//! What the server needs to know of the pods on this node.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use api::core::Pod;
use node_api::{ContainerId, PodUid, SandboxId};

pub trait PodDirectory: Send + Sync {
    /// From memory. With a `uid`, only that very pod; without, the latest of that name.
    fn find(&self, namespace: &str, name: &str, uid: Option<&PodUid>) -> Option<PodOnNode>;
    /// Every pod of this node with its latest status, sorted by namespace and name.
    fn pods(&self) -> Vec<Arc<Pod>>;
}

#[derive(Clone, Debug)]
pub struct PodOnNode {
    pub uid: PodUid,
    /// The one that is ready, if any.
    pub sandbox: Option<SandboxId>,
    /// By name, every container of the spec: also init and ephemeral ones, and such as have not
    /// started yet.
    pub containers: BTreeMap<String, ContainerOnNode>,
}

#[derive(Clone, Debug, Default)]
pub struct ContainerOnNode {
    /// The latest run, whether it runs or has ended.
    pub current: Option<ContainerRun>,
    /// The run before it.
    pub previous: Option<ContainerRun>,
    /// Why there is no run yet: the reason in the container's status, such as `ContainerCreating`.
    pub waiting: Option<String>,
}

#[derive(Clone, Debug)]
pub struct ContainerRun {
    pub id: ContainerId,
    pub log_path: PathBuf,
}
