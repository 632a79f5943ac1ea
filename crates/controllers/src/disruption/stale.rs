//! Pods that were said to be about to be deleted, and were not: after two minutes the condition
//! DisruptionTarget is taken back, so that nobody takes the pod's later end for a disruption.

use std::time::Duration;

use api::Identified as _;
use api::core::pod::{Pod, PodView};
use apimachinery::ObjectKey;
use client::{Api, PatchKind};
use informer::Indexer;
use jiff::Timestamp;
use reconcile::{Change, Controller, Failed, Next, Outcome as _, Reconciler};
use serde_json::json;
use stdx::SharedClock;

use crate::{Startup, conditions, pods};

const TIMEOUT: Duration = Duration::from_secs(2 * 60);

struct StalePods {
    pods: Indexer<PodView>,
    api: Api<Pod>,
    clock: SharedClock,
}

pub(super) fn start(startup: &Startup<'_>) {
    let mut controller = Controller::new("stale-pod-disruption", &startup.tasks, &startup.factory);
    controller.queue().measure(&startup.metrics);
    let reconciler = StalePods {
        pods: controller.cache(),
        api: startup.client.api(),
        clock: startup.world.clock.clone(),
    };
    controller
        .follows(|change: Change<'_, PodView>, queue| {
            let condition = |it: &PodView| it.disruption.clone();
            if let Some(pod) = change.with_new(condition).filter(|it| it.disruption.is_some()) {
                queue.add(pod.key());
            }
        })
        .run(reconciler);
}

/// How long the condition may stand; absent when it is not stale, whatever its age. That of a
/// kubelet may come long before the pod is deleted, and a pod that ended keeps its own.
pub(super) fn stale_in(pod: &PodView, now: Timestamp) -> Option<Duration> {
    let disruption = pod.disruption.as_ref()?;
    if pod.is_deleting()
        || pod.is_terminal()
        || disruption.reason.as_str() == "TerminationByKubelet"
    {
        return None;
    }
    Some(disruption.since.map_or(Duration::ZERO, |it| pods::remaining(it, TIMEOUT, now)))
}

impl Reconciler for StalePods {
    type Key = ObjectKey;
    type Error = Failed;

    async fn reconcile(&self, key: &ObjectKey) -> Result<Next, Failed> {
        let Some(pod) = self.pods.get(key) else { return Ok(Next::Settled) };
        match stale_in(&pod, self.clock.now()) {
            None => Ok(Next::Settled),
            Some(Duration::ZERO) => self.take_back(key, &pod).await,
            Some(left) => Ok(Next::After(left)),
        }
    }
}

impl StalePods {
    async fn take_back(&self, key: &ObjectKey, pod: &PodView) -> Result<Next, Failed> {
        let patch = json!({
            "metadata": {"uid": pod.uid(), "resourceVersion": pod.version().to_string()},
            "status": {"conditions": [{
                "type": "DisruptionTarget",
                "status": "False",
                "reason": null,
                "message": null,
                "observedGeneration": pod.generation,
                "lastTransitionTime": conditions::time(self.clock.now()),
            }]},
        });
        let (namespace, name) = (&key.namespace, &key.name);
        let body = patch.to_string().into();
        let patched = self.api.patch_status(namespace, name, PatchKind::Strategic, body).await;
        patched.unless_gone().map_err(Failed::to::<Pod>("clear the disruption of", key))?;
        Ok(Next::Settled)
    }
}
