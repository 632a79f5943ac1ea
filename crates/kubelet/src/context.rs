//! What every part of the kubelet works with.

use std::net::IpAddr;
use std::path::PathBuf;

use informer::Lister;
use k8s_openapi::api::core::v1::{ObjectReference, Pod, Service};
use node_api::PodUid;
use node_api::sandboxes::Handler;
use reconcile::{EventRecorder, EventType};
use stdx::World;

use crate::metrics::Metrics;
use crate::objects::Objects;
use crate::pod_facts::Allocatable;
use crate::probes::Probes;
use crate::runtime_classes::RuntimeClasses;
use crate::{Config, Parts};

pub(crate) struct Context {
    pub(crate) config: Config,
    pub(crate) parts: Parts,
    pub(crate) objects: Objects,
    pub(crate) runtime_classes: RuntimeClasses,
    pub(crate) probes: Probes,
    pub(crate) recorder: EventRecorder,
    pub(crate) services: Lister<Service>,
    pub(crate) allocatable: Allocatable,
    pub(crate) world: World,
    pub(crate) metrics: Metrics,
}

impl Context {
    pub(crate) fn host_ips(&self) -> Vec<IpAddr> {
        self.config.node_addresses.clone()
    }

    /// What the runtime says of this handler; nothing, of one that it does not know.
    pub(crate) fn handler(&self, name: &str) -> Handler {
        let status = self.parts.sandboxes.status();
        let handler = status.borrow().handlers.get(name).copied();
        handler.unwrap_or_default()
    }

    /// `pods/<uid>` below the kubelet's directory.
    pub(crate) fn pod_directory(&self, uid: &PodUid) -> PathBuf {
        self.config.directory.join("pods").join(uid.as_str())
    }

    /// `<namespace>_<name>_<uid>` below the directory for logs.
    pub(crate) fn log_directory(&self, pod: &Pod) -> PathBuf {
        self.config.log_directory.join(log_directory_name(pod))
    }

    pub(crate) fn event(&self, pod: &Pod, kind: EventType, reason: &str, message: String) {
        self.recorder.event(pod, kind, reason, message);
    }

    /// About one container of a pod: the event names it in its field path.
    pub(crate) fn container_event(
        &self,
        (pod, container): (&Pod, &str),
        kind: EventType,
        reason: &str,
        message: String,
    ) {
        let about = container_reference(pod, container);
        self.recorder.event_about(about, kind, reason, message);
    }
}

fn container_reference(pod: &Pod, container: &str) -> ObjectReference {
    let spec = pod.spec.as_ref();
    let init = spec.into_iter().flat_map(|it| &it.init_containers).flatten();
    let ephemeral = spec.into_iter().flat_map(|it| &it.ephemeral_containers).flatten();
    let list = if init.into_iter().any(|it| it.name == container) {
        "initContainers"
    } else if ephemeral.into_iter().any(|it| it.name == container) {
        "ephemeralContainers"
    } else {
        "containers"
    };
    let meta = &pod.metadata;
    ObjectReference {
        api_version: Some("v1".to_owned()),
        kind: Some("Pod".to_owned()),
        name: meta.name.clone(),
        namespace: meta.namespace.clone(),
        uid: meta.uid.clone(),
        resource_version: meta.resource_version.clone(),
        field_path: Some(format!("spec.{list}{{{container}}}")),
    }
}

pub(crate) fn log_directory_name(pod: &Pod) -> String {
    let meta = &pod.metadata;
    let text = |it: &Option<String>| it.clone().unwrap_or_default();
    format!("{}_{}_{}", text(&meta.namespace), text(&meta.name), text(&meta.uid))
}
