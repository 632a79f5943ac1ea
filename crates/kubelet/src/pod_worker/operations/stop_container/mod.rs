//! A container's end: preStop hook, signal, and after the grace a kill.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Container;
use node_api::ContainerId;
use reconcile::EventType;

use super::{Action, On, Op, Operation, Outcome, Scene};
use crate::hooks;
use crate::pod_worker::memory::Memory;
use crate::pod_worker::view::View;

/// What is left after a long hook; upstream gives as much.
const GRACE_MIN: Duration = Duration::from_secs(2);

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct StopContainer {
    pub(crate) id: ContainerId,
    pub(crate) name: String,
    pub(crate) deadline: Timestamp,
    pub(crate) why: Why,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Why {
    /// The pod ends.
    PodStops,
    FailedLiveness,
    FailedStartup,
    Changed,
    /// Its size changed, and it asks for another run then.
    Resized,
}

/// Whether the run is being stopped, and by this deadline, if there is one.
pub(crate) fn is_stopping(memory: &Memory, id: &ContainerId, by: Option<Timestamp>) -> bool {
    memory.in_flight.iter().filter_map(Op::on::<StopContainer>).any(|it| match it {
        On::RunUntil(stopping, at) => stopping == id && by.is_none_or(|by| *at <= by),
        _ => false,
    })
}

impl Operation for StopContainer {
    const NAME: &'static str = "stop_container";
    type Done = ();
    type Failure = ();

    fn on(&self) -> On {
        On::RunUntil(self.id.clone(), self.deadline)
    }

    fn action(self) -> Action {
        Action::StopContainer(self)
    }

    fn begin(&self, view: &mut View) {
        if self.why == Why::Resized {
            view.memory.restarting.insert(self.id.clone());
        }
    }

    async fn apply(&self, scene: &Scene) -> Outcome {
        let (id, name) = (&self.id, &self.name);
        let about = (&*scene.pod, name.as_str());
        let message = self.why.message(name);
        scene.context.container_event(about, EventType::Normal, "Killing", message);
        let grace = self.deadline.duration_since(scene.context.world.clock.now());
        let grace = Duration::try_from(grace).unwrap_or_default().max(Duration::from_secs(1));
        let left = pre_stop(scene, &scene.container(name), id, grace).await;
        match scene.context.parts.containers.stop(id, left).await {
            Ok(()) => Outcome::Done(()),
            Err(err) => {
                let text = stdx::error_chain(&err);
                tracing::warn!(%id, error = text, "container not stopped");
                Outcome::Failed(())
            }
        }
    }
}

impl Why {
    fn message(self, name: &str) -> String {
        match self {
            Self::PodStops => format!("Stopping container {name}"),
            Self::FailedLiveness => {
                format!("Container {name} failed liveness probe, will be restarted")
            }
            Self::FailedStartup => {
                format!("Container {name} failed startup probe, will be restarted")
            }
            Self::Changed => format!("Container {name} definition changed, will be restarted"),
            Self::Resized => format!("Container {name} resize requires restart"),
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
