//! What the kubelet's server sees of the pods: read from memory when it asks.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use informer::Lister;
use k8s_openapi::api::core::v1::{ContainerStatus, Pod};
use node_api::containers::Container as Run;
use node_api::sandboxes::SandboxState;
use node_api::{Containers, PodUid, Sandboxes};

use crate::pod_worker::wanted;
use crate::server::{ContainerOnNode, ContainerRun, PodDirectory, PodOnNode};

/// Pods that have a worker, with what their source last said. Written by the dispatcher alone.
#[derive(Clone, Default)]
pub(crate) struct Registry(Arc<Mutex<BTreeMap<PodUid, Known>>>);

#[derive(Clone)]
pub(super) struct Known {
    pub(super) pod: Arc<Pod>,
    /// What a static pod is called in the API.
    pub(super) mirror: Option<Arc<Pod>>,
}

impl Registry {
    fn all(&self) -> MutexGuard<'_, BTreeMap<PodUid, Known>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn set(&self, uid: PodUid, known: Known) {
        self.all().insert(uid, known);
    }

    pub(super) fn remove(&self, uid: &PodUid) {
        self.all().remove(uid);
    }

    /// The newest of that name: pods that are ending may share it with their successor.
    fn find(&self, namespace: &str, name: &str, uid: Option<&PodUid>) -> Option<(PodUid, Known)> {
        let is_named = |it: &Known| {
            let meta = &it.pod.metadata;
            meta.namespace.as_deref() == Some(namespace) && meta.name.as_deref() == Some(name)
        };
        let is_asked = |known: &PodUid, it: &Known| {
            uid.is_none_or(|uid| {
                let mirror = it.mirror.as_ref().and_then(|it| it.metadata.uid.as_deref());
                known == uid || mirror == Some(uid.as_str())
            })
        };
        let all = self.all();
        let named = all.iter().filter(|(uid, it)| is_named(it) && is_asked(uid, it));
        let newest = named.max_by_key(|(_, it)| it.pod.metadata.creation_timestamp.clone());
        newest.map(|(uid, it)| (uid.clone(), it.clone()))
    }
}

pub(crate) struct Directory {
    pub(crate) registry: Registry,
    pub(crate) pods: Lister<Pod>,
    pub(crate) sandboxes: Arc<dyn Sandboxes>,
    pub(crate) containers: Arc<dyn Containers>,
}

impl PodDirectory for Directory {
    fn find(&self, namespace: &str, name: &str, uid: Option<&PodUid>) -> Option<PodOnNode> {
        let (uid, known) = self.registry.find(namespace, name, uid)?;
        let sandboxes: Vec<_> =
            self.sandboxes.list().into_iter().filter(|it| it.config.pod.uid == uid).collect();
        let runs: Vec<Run> =
            sandboxes.iter().flat_map(|it| self.containers.list(Some(&it.id))).collect();
        let shown = known.mirror.as_deref().unwrap_or(&known.pod);
        let spec = known.pod.spec.clone().unwrap_or_default();
        let wanted = wanted(&spec);
        let containers = wanted.iter().map(|it| {
            let name = it.name();
            let mut newest_first = runs.iter().rev().filter(|it| it.config.name == name).map(run);
            let (current, previous) = (newest_first.next(), newest_first.next());
            let on_node = ContainerOnNode { current, previous, waiting: waiting(shown, name) };
            (name.to_owned(), on_node)
        });
        let containers = containers.collect();
        let ready = sandboxes.iter().rev().find(|it| it.state == SandboxState::Ready);
        Some(PodOnNode { uid, sandbox: ready.map(|it| it.id.clone()), containers })
    }

    fn pods(&self) -> Vec<Arc<Pod>> {
        self.pods.list()
    }
}

fn run(run: &Run) -> ContainerRun {
    ContainerRun { id: run.id.clone(), log_path: run.config.log_path.clone() }
}

fn waiting(pod: &Pod, name: &str) -> Option<String> {
    let status = pod.status.as_ref()?;
    let lists = [
        &status.init_container_statuses,
        &status.container_statuses,
        &status.ephemeral_container_statuses,
    ];
    let mut statuses = lists.into_iter().flatten().flatten();
    let found: &ContainerStatus = statuses.find(|it| it.name == name)?;
    found.state.as_ref()?.waiting.as_ref()?.reason.clone()
}
