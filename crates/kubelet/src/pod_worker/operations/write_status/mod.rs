//! The API is told how the pod is.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use client::PatchKind;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Pod, PodStatus};

use super::{Action, On, Operation, Outcome, Scene};
use crate::pod_worker::memory::{Memory, Sent};
use crate::pod_worker::view::View;
use crate::status;

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct WriteStatus(pub(crate) Box<PodStatus>);

impl Operation for WriteStatus {
    const NAME: &'static str = "write_status";
    /// The pod as the API has it now; `None`: there is no such pod.
    type Done = Option<Arc<Pod>>;
    type Failure = ();

    fn on(&self) -> On {
        On::Pod
    }

    fn action(self) -> Action {
        Action::WriteStatus(self)
    }

    fn begin(&self, view: &mut View) {
        let version = view.pod.metadata.resource_version.clone();
        view.memory.sent = Some(Sent { status: (*self.0).clone(), version });
    }

    async fn apply(&self, scene: &Scene) -> Outcome<Option<Arc<Pod>>> {
        // Before the API knows: whoever fills the room at once must find it empty.
        if matches!(self.0.phase.as_deref(), Some("Succeeded" | "Failed")) {
            scene.is_over.store(true, Ordering::Relaxed);
        }
        let Some(shown) = &scene.shown else { return Outcome::Done(None) };
        let meta = &shown.metadata;
        let uid = meta.uid.as_deref().unwrap_or_default();
        let body = status::patch(uid, shown.status.as_ref(), &self.0);
        let namespace = meta.namespace.as_deref().unwrap_or_default();
        let name = meta.name.as_deref().unwrap_or_default();
        let pods = scene.context.parts.client.api::<Pod>();
        let written = pods.patch_status(namespace, name, PatchKind::Strategic, body).await;
        match written.and_then(|it| it.object()) {
            Ok(pod) => Outcome::Done(Some(pod)),
            // Gone, or another pod of that name: the source will say so.
            Err(err) if err.is_not_found() || err.is_conflict() => Outcome::Done(None),
            Err(err) => {
                tracing::warn!(%namespace, name, error = %err, "status not written");
                Outcome::Failed(())
            }
        }
    }

    fn done(&self, pod: Option<Arc<Pod>>, memory: &mut Memory) {
        let Some(pod) = pod else { return };
        if let Some(sent) = &mut memory.sent {
            sent.version.clone_from(&pod.metadata.resource_version);
        }
        memory.answered = Some(pod);
    }

    fn failed(&self, (): (), memory: &mut Memory, now: Timestamp) {
        memory.sent = None;
        memory.wait(self.op(), Self::RETRY, now);
    }
}
