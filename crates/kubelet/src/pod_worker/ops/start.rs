//! A container's start: image, configuration, creation, execution, postStart hook.

use std::collections::BTreeMap;
use std::path::PathBuf;

use k8s_openapi::api::core::v1::Container;
use node_api::images::Image;
use node_api::{ContainerId, SandboxId};
use reconcile::EventType;

use super::image::{self, Found};
use super::{Outcome, Scene};
use crate::pod_facts::{PodFacts, RunFacts};
use crate::pod_worker::messages;
use crate::pod_worker::view::ANNOTATION_IMAGE;
use crate::{container_config, disk, hooks, host_files};

const HOSTS: &str = "/etc/hosts";

/// What the step knows about the run.
pub(in crate::pod_worker) struct Start {
    pub(in crate::pod_worker) container: Container,
    pub(in crate::pod_worker) attempt: u32,
    pub(in crate::pod_worker) sandbox: SandboxId,
    /// Was created and never ran: it makes room.
    pub(in crate::pod_worker) leftover: Option<ContainerId>,
}

/// Returns when the postStart hook has finished.
pub(in crate::pod_worker) async fn start_container(scene: Scene, start: Start) -> Outcome {
    let image = match image::ensure(&scene, &start.container).await {
        Found::Image(image) => *image,
        Found::Not(outcome) => return outcome,
    };
    if scene.ending.is_cancelled() {
        return Outcome::Cancelled;
    }
    let id = match create(&scene, &start, image).await {
        Ok(id) => id,
        Err(outcome) => return outcome,
    };
    tell(
        &scene,
        &start.container.name,
        EventType::Normal,
        "Created",
        "Container created".to_owned(),
    );
    if let Err(err) = scene.context.parts.containers.start(&id).await {
        return failed(&scene, &start.container.name, "RunContainerError", stdx::error_chain(&err));
    }
    tell(
        &scene,
        &start.container.name,
        EventType::Normal,
        "Started",
        "Container started".to_owned(),
    );
    post_start(&scene, &start.container, &id).await
}

async fn create(scene: &Scene, start: &Start, image: Image) -> Result<ContainerId, Outcome> {
    let containers = &scene.context.parts.containers;
    if let Some(leftover) = &start.leftover
        && let Err(err) = containers.remove(leftover).await
    {
        return Err(failed(
            scene,
            &start.container.name,
            "CreateContainerError",
            stdx::error_chain(&err),
        ));
    }
    let config = configure(scene, start, image).await?;
    containers.create(&start.sandbox, config).await.map_err(|err| {
        failed(scene, &start.container.name, "CreateContainerError", stdx::error_chain(&err))
    })
}

async fn configure(
    scene: &Scene,
    start: &Start,
    image: Image,
) -> Result<node_api::containers::ContainerConfig, Outcome> {
    let config_error =
        |text| failed(scene, &start.container.name, "CreateContainerConfigError", text);
    let context = &scene.context;
    let name = &start.container.name;
    let directory = context.pod_directory(&scene.uid);
    let termination_log = messages::path(&directory, name, start.attempt);
    let log = context.log_directory(&scene.pod).join(name).join(format!("{}.log", start.attempt));
    let facts = scene.facts(scene.followed.lookups());
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
    let run = RunFacts { image, attempt, log_path: log, termination_log, sub_paths, target };
    let mut config = container_config::render(&scene.pod, &start.container, &facts, &run)
        .map_err(|err| config_error(stdx::error_chain(&err)))?;
    let image = start.container.image.clone().unwrap_or_default();
    config.annotations.insert(ANNOTATION_IMAGE.to_owned(), image);
    Ok(config)
}

/// The newest run of the container that an ephemeral one has as its target. In a pod whose
/// containers see each other anyway, or those of the node, there is nothing to ask for, as upstream
/// has it.
fn target(scene: &Scene, start: &Start) -> Result<Option<ContainerId>, String> {
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
async fn post_start(scene: &Scene, container: &Container, id: &ContainerId) -> Outcome {
    let hook = container.lifecycle.as_ref().and_then(|it| it.post_start.as_ref());
    let Some(hook) = hook else { return Outcome::Done };
    let containers = &scene.context.parts.containers;
    let address = scene.addresses.first().copied();
    let result = tokio::select! {
        biased;
        () = scene.ending.cancelled() => return Outcome::Cancelled,
        result = hooks::run(containers.as_ref(), container, id, hook, address) => result,
    };
    let Err(err) = result else { return Outcome::Done };
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
    let grace =
        std::time::Duration::from_secs(grace.and_then(|it| u64::try_from(it).ok()).unwrap_or(30));
    if let Err(err) = containers.stop(id, grace).await {
        tracing::warn!(%id, error = stdx::error_chain(&err), "container not stopped");
    }
    Outcome::NotStarted { reason: "PostStartHookError", message: text }
}

fn tell(scene: &Scene, name: &str, kind: EventType, reason: &str, message: String) {
    scene.context.container_event((&scene.pod, name), kind, reason, message);
}

fn failed(scene: &Scene, name: &str, reason: &'static str, message: String) -> Outcome {
    tell(scene, name, EventType::Warning, "Failed", format!("Error: {message}"));
    Outcome::NotStarted { reason, message }
}
