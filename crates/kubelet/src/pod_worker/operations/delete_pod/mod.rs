//! The pod goes from the API: everything that was on the node is gone.

use client::{DeleteOptions, Preconditions};
use k8s_openapi::api::core::v1::Pod;

use super::{Action, On, Operation, Outcome, Scene};
use crate::pod_worker::memory::Memory;

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct DeletePod;

impl Operation for DeletePod {
    const NAME: &'static str = "delete_pod";
    type Done = ();
    type Failure = ();

    fn on(&self) -> On {
        On::Pod
    }

    fn action(self) -> Action {
        Action::DeletePod(self)
    }

    async fn apply(&self, scene: &Scene) -> Outcome {
        let meta = &scene.pod.metadata;
        let options = DeleteOptions {
            grace_period_seconds: Some(0),
            preconditions: Preconditions { uid: meta.uid.clone(), resource_version: None },
            ..DeleteOptions::default()
        };
        let namespace = meta.namespace.as_deref().unwrap_or_default();
        let name = meta.name.as_deref().unwrap_or_default();
        let pods = scene.context.parts.client.api::<Pod>();
        match pods.delete(namespace, name, options).await {
            Ok(()) => Outcome::Done(()),
            // Gone, or another pod of that name.
            Err(err) if err.is_not_found() || err.is_conflict() => Outcome::Done(()),
            Err(err) => {
                tracing::warn!(%namespace, name, error = %err, "finished pod not deleted");
                Outcome::Failed(())
            }
        }
    }

    fn done(&self, (): (), memory: &mut Memory) {
        memory.is_deleted = true;
    }
}
