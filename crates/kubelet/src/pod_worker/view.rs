//! Everything that is known about one pod at one moment: what is wanted, what is on the node, what
//! was tried.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Container, EphemeralContainer, Pod, PodSpec};
use node_api::containers::{Container as Run, ContainerState, Exit};
use node_api::sandboxes::{Sandbox, SandboxState};
use node_api::{ContainerId, ImageId};

use super::memory::Memory;
use crate::allocation::{Allocation, Pending};
use crate::probes::Health;

/// On a container's configuration: the image as the pod named it. Another one means that the
/// container must be replaced.
pub(crate) const ANNOTATION_IMAGE: &str = "xebec.local/image";

pub(crate) struct View {
    /// With what it was given, `allocation`.
    pub(crate) pod: Arc<Pod>,
    pub(crate) allocation: Arc<Allocation>,
    /// What the node has agreed to since.
    pub(crate) granted: Arc<Allocation>,
    /// What the node has not agreed to.
    pub(crate) pending: Option<Pending>,
    /// Of the newest version of the pod that the node has decided about.
    pub(crate) generation: Option<i64>,
    pub(crate) now: Timestamp,
    pub(crate) stop: Option<Stop>,
    pub(crate) host_ips: Vec<IpAddr>,
    /// Oldest first.
    pub(crate) sandboxes: Vec<Sandbox>,
    /// Of all these sandboxes, oldest first.
    pub(crate) runs: Vec<Run>,
    pub(crate) health: BTreeMap<ContainerId, Health>,
    pub(crate) images: BTreeMap<ImageId, ImageName>,
    /// Last words of runs that have exited.
    pub(crate) messages: BTreeMap<ContainerId, String>,
    pub(crate) memory: Memory,
    /// Static pods are never shown as finished, and are not deleted by us from the API.
    pub(crate) is_static: bool,
    /// Who runs the containers: the prefix of their ids.
    pub(crate) runtime: String,
    /// Whether the pod's runtime makes what is mounted below a volume read-only too.
    pub(crate) can_recursive_read_only: bool,
}

/// Somebody wants the pod to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stop {
    pub(crate) grace: Duration,
    /// It is no longer in its source: nobody is left to tell.
    pub(crate) is_removed: bool,
}

/// As a container's status shows it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ImageName {
    pub(crate) tags: Vec<String>,
    /// `registry/name@sha256:…`, or the id when it never came from a registry.
    pub(crate) id: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    Init,
    Sidecar,
    Main,
    Ephemeral,
}

#[derive(Clone, Debug)]
pub(crate) struct Wanted {
    pub(crate) role: Role,
    pub(crate) container: Container,
}

impl Wanted {
    pub(crate) fn name(&self) -> &str {
        &self.container.name
    }
}

impl View {
    pub(crate) fn spec(&self) -> &PodSpec {
        static EMPTY: std::sync::LazyLock<PodSpec> = std::sync::LazyLock::new(PodSpec::default);
        self.pod.spec.as_ref().unwrap_or(&EMPTY)
    }

    /// The newest one, if it is alive.
    pub(crate) fn sandbox(&self) -> Option<&Sandbox> {
        self.sandboxes.last().filter(|it| it.state == SandboxState::Ready)
    }

    /// Runs of one container, oldest first.
    pub(crate) fn runs_of<'a>(
        &'a self,
        name: &str,
    ) -> impl DoubleEndedIterator<Item = &'a Run> + use<'a> {
        let name = name.to_owned();
        self.runs.iter().filter(move |it| it.config.name == name)
    }

    pub(crate) fn newest(&self, name: &str) -> Option<&Run> {
        self.runs_of(name).next_back()
    }

    /// The newest run, if it belongs to the living sandbox.
    pub(crate) fn current(&self, name: &str) -> Option<&Run> {
        let sandbox = self.sandbox()?;
        self.newest(name).filter(|it| it.sandbox == sandbox.id)
    }

    pub(crate) fn is_started(&self, run: &Run) -> bool {
        is_running(run)
            && !self.memory.is_starting_run(run)
            && self.health.get(&run.id).is_some_and(|it| it.is_started)
    }

    pub(crate) fn is_ready(&self, run: &Run) -> bool {
        self.is_started(run) && self.health.get(&run.id).is_some_and(|it| it.is_ready)
    }

    /// All containers in the order in which they start.
    pub(crate) fn wanted(&self) -> Vec<Wanted> {
        wanted(self.spec())
    }

    pub(crate) fn grace_of_spec(&self) -> Duration {
        let seconds = self.spec().termination_grace_period_seconds.unwrap_or(30);
        Duration::from_secs(u64::try_from(seconds).unwrap_or(0).max(1))
    }

    pub(crate) fn pod_text(&self) -> String {
        pod_text(&self.pod)
    }

    pub(crate) fn status(&self) -> Option<&k8s_openapi::api::core::v1::PodStatus> {
        self.pod.status.as_ref()
    }
}

pub(crate) fn wanted(spec: &PodSpec) -> Vec<Wanted> {
    let init = spec.init_containers.iter().flatten().map(|it| {
        let is_sidecar = it.restart_policy.as_deref() == Some("Always");
        let role = if is_sidecar { Role::Sidecar } else { Role::Init };
        Wanted { role, container: it.clone() }
    });
    let main = spec.containers.iter().map(|it| Wanted { role: Role::Main, container: it.clone() });
    let ephemeral = spec
        .ephemeral_containers
        .iter()
        .flatten()
        .map(|it| Wanted { role: Role::Ephemeral, container: as_container(it) });
    init.chain(main).chain(ephemeral).collect()
}

/// The two types have the same fields, but for the one that names a target.
fn as_container(it: &EphemeralContainer) -> Container {
    Container {
        args: it.args.clone(),
        command: it.command.clone(),
        env: it.env.clone(),
        env_from: it.env_from.clone(),
        image: it.image.clone(),
        image_pull_policy: it.image_pull_policy.clone(),
        name: it.name.clone(),
        resources: it.resources.clone(),
        security_context: it.security_context.clone(),
        stdin: it.stdin,
        stdin_once: it.stdin_once,
        termination_message_path: it.termination_message_path.clone(),
        termination_message_policy: it.termination_message_policy.clone(),
        tty: it.tty,
        volume_mounts: it.volume_mounts.clone(),
        working_dir: it.working_dir.clone(),
        ..Container::default()
    }
}

/// `web_default(uid)`, as upstream's messages name pods.
pub(crate) fn pod_text(pod: &Pod) -> String {
    let meta = &pod.metadata;
    format!(
        "{}_{}({})",
        meta.name.as_deref().unwrap_or_default(),
        meta.namespace.as_deref().unwrap_or_default(),
        meta.uid.as_deref().unwrap_or_default()
    )
}

pub(crate) fn is_running(run: &Run) -> bool {
    matches!(run.state, ContainerState::Running { .. })
}

pub(crate) fn exit(run: &Run) -> Option<&Exit> {
    match &run.state {
        ContainerState::Exited(exit) => Some(exit),
        ContainerState::Created | ContainerState::Running { .. } => None,
    }
}
