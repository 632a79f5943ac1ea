//! What the operations on one pod share: the pod and its node, as they were when the operation
//! began.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use k8s_openapi::api::core::v1::{Container, Pod};
use node_api::PodUid;
use tokio_util::sync::CancellationToken;

use crate::allocation::Allocation;
use crate::certificates::Certificates;
use crate::context::Context;
use crate::objects::Followed;
use crate::pod_facts::{Lookups, PodFacts};
use crate::pod_worker::view::{is_running, wanted};
use crate::tokens::Tokens;

#[derive(Clone)]
pub(crate) struct Scene {
    pub(crate) context: Arc<Context>,
    pub(crate) uid: PodUid,
    /// With what it was given.
    pub(crate) pod: Arc<Pod>,
    pub(crate) allocation: Arc<Allocation>,
    /// The object in the API whose status is the pod's: for static pods the mirror, if there is
    /// one.
    pub(crate) shown: Option<Arc<Pod>>,
    pub(crate) followed: Arc<Followed>,
    pub(crate) tokens: Arc<Tokens>,
    pub(crate) certificates: Arc<Certificates>,
    /// Set when the pod ends.
    pub(crate) ending: CancellationToken,
    /// Set when the pod has finished: its resources are free for others.
    pub(crate) is_over: Arc<AtomicBool>,
    pub(crate) volumes: BTreeMap<String, PathBuf>,
    /// Empty until there is a sandbox.
    pub(crate) addresses: Vec<IpAddr>,
    pub(crate) can_recursive_read_only: bool,
}

impl Scene {
    /// As the pod asks for it.
    pub(super) fn container(&self, name: &str) -> Container {
        let wanted = self.pod.spec.as_ref().map(wanted).unwrap_or_default();
        let found = wanted.into_iter().find(|it| it.name() == name);
        found.map(|it| it.container).unwrap_or_default()
    }

    /// Whether a container of the pod runs now.
    pub(super) fn has_running(&self) -> bool {
        let parts = &self.context.parts;
        let sandboxes = parts.sandboxes.list().into_iter();
        let mut own = sandboxes.filter(|it| it.config.pod.uid == self.uid);
        own.any(|it| parts.containers.list(Some(&it.id)).iter().any(is_running))
    }

    pub(super) fn facts(&self, lookups: Lookups) -> PodFacts {
        let context = &self.context;
        let namespace = self.pod.metadata.namespace.as_deref().unwrap_or_default();
        let mut services = context.services.list_namespace(namespace);
        if namespace != "default" {
            let kubernetes = apimachinery::ObjectKey::new("default", "kubernetes");
            services.extend(context.services.get(&kubernetes));
        }
        let is_host = self.pod.spec.as_ref().and_then(|it| it.host_network) == Some(true);
        let directory = context.pod_directory(&self.uid);
        let pod_ips = if is_host { context.host_ips() } else { self.addresses.clone() };
        PodFacts {
            node_name: context.config.node_name.clone(),
            host_ips: context.host_ips(),
            pod_ips,
            allocatable: context.allocatable,
            lookups,
            services,
            volumes: self.volumes.clone(),
            hosts_file: Some(directory.join("etc-hosts")),
            directory,
            can_recursive_read_only: self.can_recursive_read_only,
            files: BTreeMap::new(),
        }
    }
}
