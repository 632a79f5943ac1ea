//! A container's start: image, configuration, creation, execution, postStart hook.

mod credentials;
mod env_files;
mod image;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Container;
use node_api::images::Image;
use node_api::{ContainerId, ImageId, SandboxId};
use reconcile::EventType;

use super::{Action, Delays, On, Operation, Outcome, Scene};
use crate::pod_facts::{PodFacts, RunFacts};
use crate::pod_worker::memory::{Memory, Trouble};
use crate::pod_worker::messages;
use crate::pod_worker::view::{ANNOTATION_IMAGE, View, exit};
use crate::{container_config, disk, hooks, host_files, volumes};
use image::Found;

const HOSTS: &str = "/etc/hosts";

/// Upstream's numbers for images that cannot be pulled.
const DELAYS: Delays = Delays { first: Duration::from_secs(10), max: Duration::from_secs(300) };

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct StartContainer {
    pub(crate) name: String,
    pub(crate) attempt: u32,
    pub(crate) sandbox: SandboxId,
    /// Was created and never ran: it makes room.
    pub(crate) leftover: Option<ContainerId>,
}

/// Why a container does not run, as its status shows it.
#[derive(Debug)]
pub(crate) struct NotStarted {
    pub(crate) reason: &'static str,
    pub(crate) message: String,
    /// What could not be pulled, where it is not the container's own: that of a volume.
    pub(crate) image: Option<String>,
}

impl NotStarted {
    pub(crate) fn new(reason: &'static str, message: String) -> Self {
        Self { reason, message, image: None }
    }

    /// It left a run that ended: the wait after it is that of a crash.
    fn has_run(&self) -> bool {
        matches!(self.reason, "RunContainerError" | "PostStartHookError")
    }
}

type Attempted = Outcome<(), NotStarted>;

impl Operation for StartContainer {
    const NAME: &'static str = "start_container";
    const RETRY: Delays = DELAYS;
    type Done = ();
    type Failure = NotStarted;

    fn on(&self) -> On {
        On::Container(self.name.clone())
    }

    fn action(self) -> Action {
        Action::StartContainer(self)
    }

    /// A container that ended starts again: the next wait is longer.
    fn begin(&self, view: &mut View) {
        let newest = view.newest(&self.name).filter(|it| exit(it).is_some());
        let Some(ended) = newest.map(|it| it.id.clone()) else { return };
        // Who was ended for another size has not failed.
        if !view.memory.restarting.remove(&ended) {
            view.memory.restarts(&self.name, view.now);
        }
    }

    async fn apply(&self, scene: &Scene) -> Attempted {
        let start = Start { start: self, container: scene.container(&self.name) };
        start_container(scene, &start).await
    }

    fn done(&self, (): (), memory: &mut Memory) {
        memory.troubles.remove(&self.name);
    }

    fn failed(&self, why: NotStarted, memory: &mut Memory, now: Timestamp) {
        if !why.has_run() {
            memory.wait(self.op(), Self::RETRY, now);
        }
        let NotStarted { reason, message, image } = why;
        let trouble = Trouble { reason, message, image, since: now };
        memory.troubles.insert(self.name.clone(), trouble);
    }
}

/// With the container as the pod asks for it.
struct Start<'a> {
    start: &'a StartContainer,
    container: Container,
}

impl std::ops::Deref for Start<'_> {
    type Target = StartContainer;

    fn deref(&self) -> &StartContainer {
        self.start
    }
}

/// Returns when the postStart hook has finished.
async fn start_container(scene: &Scene, start: &Start<'_>) -> Attempted {
    let mut images = BTreeMap::new();
    for wanted in volumes::images(&scene.pod, &start.container) {
        match image::ensure_of_volume(scene, &start.container, &wanted).await {
            Found::Image(image) => drop(images.insert(wanted.volume.to_owned(), image.id)),
            Found::Not(outcome) => return outcome,
        }
    }
    let image = match image::ensure(scene, &start.container).await {
        Found::Image(image) => *image,
        Found::Not(outcome) => return outcome,
    };
    if scene.ending.is_cancelled() {
        return Outcome::Cancelled;
    }
    let id = match create(scene, start, (image, images)).await {
        Ok(id) => id,
        Err(outcome) => return outcome,
    };
    tell(scene, &start.name, EventType::Normal, "Created", "Container created".to_owned());
    if let Err(err) = scene.context.parts.containers.start(&id).await {
        return failed(scene, &start.name, "RunContainerError", stdx::error_chain(&err));
    }
    tell(scene, &start.name, EventType::Normal, "Started", "Container started".to_owned());
    post_start(scene, &start.container, &id).await
}

/// Its own image, and those of its volumes by their names.
type Pulled = (Image, BTreeMap<String, ImageId>);

async fn create(
    scene: &Scene,
    start: &Start<'_>,
    images: Pulled,
) -> Result<ContainerId, Attempted> {
    let containers = &scene.context.parts.containers;
    if let Some(leftover) = &start.leftover
        && let Err(err) = containers.remove(leftover).await
    {
        return Err(failed(scene, &start.name, "CreateContainerError", stdx::error_chain(&err)));
    }
    let config = configure(scene, start, images).await?;
    containers
        .create(&start.sandbox, config)
        .await
        .map_err(|err| failed(scene, &start.name, "CreateContainerError", stdx::error_chain(&err)))
}

async fn configure(
    scene: &Scene,
    start: &Start<'_>,
    (image, images): Pulled,
) -> Result<node_api::containers::ContainerConfig, Attempted> {
    let config_error = |text| failed(scene, &start.name, "CreateContainerConfigError", text);
    let context = &scene.context;
    let name = &start.name;
    let directory = context.pod_directory(&scene.uid);
    let termination_log = messages::path(&directory, name, start.attempt);
    let log = context.log_directory(&scene.pod).join(name).join(format!("{}.log", start.attempt));
    let mut facts = scene.facts(scene.followed.lookups());
    facts.files = env_files::read(scene, &start.container, &facts).await;
    if let Some(path) = facts.hosts_file.clone() {
        let node_hosts = disk::read_text(HOSTS).await;
        let domain = &context.config.cluster_domain;
        let content = host_files::hosts(&scene.pod, &facts.pod_ips, domain, &node_hosts);
        disk::write(path, content).await.map_err(|err| config_error(err.to_string()))?;
    }
    disk::create_open(termination_log.clone())
        .await
        .map_err(|err| config_error(err.to_string()))?;
    let sub_paths = sub_paths(scene, &start.container, &facts).await.map_err(config_error)?;
    let attempt = start.attempt;
    let target = target(scene, start).map_err(config_error)?;
    let run =
        RunFacts { image, attempt, log_path: log, termination_log, sub_paths, images, target };
    let mut config = container_config::render(&scene.pod, &start.container, &facts, &run)
        .map_err(|err| config_error(stdx::error_chain(&err)))?;
    let image = start.container.image.clone().unwrap_or_default();
    config.annotations.insert(ANNOTATION_IMAGE.to_owned(), image);
    Ok(config)
}

/// The newest run of the container that an ephemeral one has as its target. In a pod whose
/// containers see each other anyway, or those of the node, there is nothing to ask for, as upstream
/// has it.
fn target(scene: &Scene, start: &Start<'_>) -> Result<Option<ContainerId>, String> {
    let Some(spec) = &scene.pod.spec else { return Ok(None) };
    let sees_all = spec.share_process_namespace == Some(true) || spec.host_pid == Some(true);
    let ephemeral = spec.ephemeral_containers.iter().flatten();
    let mut asking = ephemeral.filter(|it| it.name == start.container.name);
    let name = asking.find_map(|it| it.target_container_name.as_ref());
    let Some(name) = name.filter(|it| !it.is_empty() && !sees_all) else { return Ok(None) };
    let runs = scene.context.parts.containers.list(Some(&start.sandbox));
    match runs.into_iter().rfind(|it| it.config.name == *name) {
        Some(newest) => Ok(Some(newest.id)),
        None => Err(format!("unable to find target container {name}")),
    }
}

/// Parts of volumes that are mounted by themselves.
async fn sub_paths(
    scene: &Scene,
    container: &Container,
    facts: &PodFacts,
) -> Result<BTreeMap<usize, PathBuf>, String> {
    let wanted = container_config::sub_paths(&scene.pod, container, facts);
    let mut made = BTreeMap::new();
    for sub_path in wanted.map_err(|err| stdx::error_chain(&err))? {
        let (mount, volumes) = (sub_path.mount, &scene.context.parts.volumes);
        let path = volumes.sub_path(&scene.uid, sub_path).await;
        made.insert(mount, path.map_err(|err| stdx::error_chain(&err))?);
    }
    Ok(made)
}

/// A hook that fails takes the container with it; the restart policy decides what is next.
async fn post_start(scene: &Scene, container: &Container, id: &ContainerId) -> Attempted {
    let hook = container.lifecycle.as_ref().and_then(|it| it.post_start.as_ref());
    let Some(hook) = hook else { return Outcome::Done(()) };
    let containers = &scene.context.parts.containers;
    let address = scene.addresses.first().copied();
    let result = tokio::select! {
        biased;
        () = scene.ending.cancelled() => return Outcome::Cancelled,
        result = hooks::run(containers.as_ref(), container, id, hook, address) => result,
    };
    let Err(err) = result else { return Outcome::Done(()) };
    let text = stdx::error_chain(&err);
    tracing::info!(container = container.name, error = text, "postStart hook failed");
    tell(
        scene,
        &container.name,
        EventType::Warning,
        "FailedPostStartHook",
        "PostStartHook failed".to_owned(),
    );
    tell(scene, &container.name, EventType::Normal, "Killing", "FailedPostStartHook".to_owned());
    let grace = scene.pod.spec.as_ref().and_then(|it| it.termination_grace_period_seconds);
    let grace = Duration::from_secs(grace.and_then(|it| u64::try_from(it).ok()).unwrap_or(30));
    if let Err(err) = containers.stop(id, grace).await {
        tracing::warn!(%id, error = stdx::error_chain(&err), "container not stopped");
    }
    Outcome::Failed(NotStarted::new("PostStartHookError", text))
}

fn tell(scene: &Scene, name: &str, kind: EventType, reason: &str, message: String) {
    scene.context.container_event((&scene.pod, name), kind, reason, message);
}

fn failed(scene: &Scene, name: &str, reason: &'static str, message: String) -> Attempted {
    tell(scene, name, EventType::Warning, "Failed", format!("Error: {message}"));
    Outcome::Failed(NotStarted::new(reason, message))
}
