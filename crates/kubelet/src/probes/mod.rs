//! Startup, liveness and readiness of running containers.
//!
//! `health` decides, `task` waits, `action` and its siblings look. A run's health is told by a
//! watch channel; it says nothing more once the receiver is gone.

mod action;
mod exec;
mod grpc;
mod health;
pub(crate) mod http;
mod ports;
mod task;
mod tcp;
#[cfg(test)]
pub(crate) mod tests;

use std::net::IpAddr;
use std::sync::{Arc, LazyLock};

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Container, ObjectReference, Pod};
use lifecycle::Tasks;
use node_api::{ContainerId, Containers};
use reconcile::{EventRecorder, EventType};
use stdx::World;
use tokio::sync::watch;

pub(crate) use ports::port;

/// One run of one container.
#[derive(Clone)]
pub struct Target {
    pub pod: Arc<Pod>,
    pub container: Container,
    pub id: ContainerId,
    pub address: Option<IpAddr>,
    pub started: Timestamp,
    /// What the API last said of this very run, when it was adopted: it is not unready or unstarted
    /// again only because the kubelet started again.
    pub was: Option<Health>,
}

/// What probes say of one run. Without a probe of its kind a running container is started, ready
/// and alive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Health {
    pub is_started: bool,
    pub is_ready: bool,
    /// The liveness or the startup probe failed too often: kill it, and let the restart policy
    /// decide.
    pub failed: Option<Failed>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failed {
    Liveness,
    Startup,
}

impl Failed {
    /// What the event `Killing` says.
    pub fn kill_message(self, container: &str) -> String {
        let kind = match self {
            Self::Liveness => "liveness",
            Self::Startup => "startup",
        };
        format!("Container {container} failed {kind} probe, will be restarted")
    }

    /// The probe's own grace period for the kill, if it has one.
    pub fn grace_seconds(self, container: &Container) -> Option<i64> {
        let probe = match self {
            Self::Liveness => container.liveness_probe.as_ref(),
            Self::Startup => container.startup_probe.as_ref(),
        };
        probe?.termination_grace_period_seconds
    }
}

/// Who is told what went wrong: an event about the container.
type Tell = Arc<dyn Fn(&Target, &'static str, String) + Send + Sync>;

/// What containers without probes share. It never changes and, being nobody's, never ends: who
/// waits for a change waits.
static WELL: LazyLock<watch::Sender<Health>> =
    LazyLock::new(|| watch::Sender::new(Health { is_started: true, is_ready: true, failed: None }));

/// Cheap to clone.
#[derive(Clone)]
pub struct Probes {
    tasks: Tasks,
    world: World,
    containers: Arc<dyn Containers>,
    tell: Tell,
}

impl Probes {
    pub fn spawn(
        tasks: &Tasks,
        containers: Arc<dyn Containers>,
        recorder: EventRecorder,
        world: &World,
    ) -> Self {
        let tell: Tell = Arc::new(move |target, reason, message| {
            recorder.event_about(reference(target), EventType::Warning, reason, message);
        });
        Self::telling(tasks, containers, tell, world)
    }

    fn telling(tasks: &Tasks, containers: Arc<dyn Containers>, tell: Tell, world: &World) -> Self {
        Self { tasks: tasks.child("probes"), world: world.clone(), containers, tell }
    }

    /// Starts probing this run. It ends when the receiver is dropped. Tells of failures with
    /// `Unhealthy` events.
    pub fn add(&self, target: Target) -> watch::Receiver<Health> {
        let container = &target.container;
        let kinds =
            [&container.startup_probe, &container.liveness_probe, &container.readiness_probe];
        if kinds.iter().all(|it| it.is_none()) {
            return WELL.subscribe();
        }
        let (tx, rx) = watch::channel(health::initial(container, target.was));
        let pod = target.pod.metadata.name.as_deref().unwrap_or_default();
        let (name, probes) = (format!("{pod}/{}", container.name), self.clone());
        self.tasks.spawn(&name, |shutdown| task::run(probes, target, tx, shutdown));
        rx
    }
}

/// The pod, and which of its containers it is about.
fn reference(target: &Target) -> ObjectReference {
    let meta = &target.pod.metadata;
    ObjectReference {
        api_version: Some("v1".to_owned()),
        kind: Some("Pod".to_owned()),
        name: meta.name.clone(),
        namespace: meta.namespace.clone(),
        uid: meta.uid.clone(),
        resource_version: meta.resource_version.clone(),
        field_path: Some(field_path(&target.pod, &target.container.name)),
    }
}

fn field_path(pod: &Pod, container: &str) -> String {
    let init = pod.spec.iter().flat_map(|it| it.init_containers.iter().flatten());
    let kind = match init.into_iter().any(|it| it.name == container) {
        true => "initContainers",
        false => "containers",
    };
    format!("spec.{kind}{{{container}}}")
}
