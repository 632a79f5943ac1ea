//! A container's end: preStop hook, signal, and after the grace a kill.

use std::time::Duration;

use k8s_openapi::api::core::v1::Container;
use node_api::ContainerId;
use reconcile::EventType;

use super::{Outcome, Scene};
use crate::hooks;
use crate::pod_worker::step::Why;

/// What is left after a long hook; upstream gives as much.
const GRACE_MIN: Duration = Duration::from_secs(2);

pub(in crate::pod_worker) async fn stop_container(
    scene: Scene,
    id: ContainerId,
    container: Container,
    grace: Duration,
    why: Why,
) -> Outcome {
    let name = &container.name;
    let message = match why {
        Why::PodStops => format!("Stopping container {name}"),
        Why::FailedLiveness => format!("Container {name} failed liveness probe, will be restarted"),
        Why::FailedStartup => format!("Container {name} failed startup probe, will be restarted"),
        Why::Changed => format!("Container {name} definition changed, will be restarted"),
    };
    scene.context.container_event(
        (&scene.pod, &container.name),
        EventType::Normal,
        "Killing",
        message,
    );
    let left = pre_stop(&scene, &container, &id, grace).await;
    match scene.context.parts.containers.stop(&id, left).await {
        Ok(()) => Outcome::Done,
        Err(err) => {
            let text = stdx::error_chain(&err);
            tracing::warn!(%id, error = text, "container not stopped");
            Outcome::Failed
        }
    }
}

/// What the hook leaves of the grace.
async fn pre_stop(
    scene: &Scene,
    container: &Container,
    id: &ContainerId,
    grace: Duration,
) -> Duration {
    let hook = container.lifecycle.as_ref().and_then(|it| it.pre_stop.as_ref());
    let Some(hook) = hook else { return grace };
    let started = tokio::time::Instant::now();
    let address = scene.addresses.first().copied();
    let containers = scene.context.parts.containers.as_ref();
    let run = hooks::run(containers, container, id, hook, address);
    let problem = match tokio::time::timeout(grace, run).await {
        Ok(Ok(())) => None,
        Ok(Err(err)) => Some(stdx::error_chain(&err)),
        Err(_) => Some("it did not finish within the grace period".to_owned()),
    };
    if let Some(problem) = problem {
        tracing::info!(container = container.name, error = problem, "preStop hook failed");
        let message = "PreStopHook failed".to_owned();
        scene.context.container_event(
            (&scene.pod, &container.name),
            EventType::Warning,
            "FailedPreStopHook",
            message,
        );
    }
    grace.saturating_sub(started.elapsed()).max(GRACE_MIN)
}
