//! The pod's cgroup, with the limits of the pod. Made once, and again after an adoption.

use node_api::containers::Resources;
use reconcile::EventType;

use super::{Action, On, Operation, Outcome, Scene};
use crate::cgroups;
use crate::pod_worker::memory::Memory;

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct EnsureCgroup(pub(crate) Resources);

impl Operation for EnsureCgroup {
    const NAME: &'static str = "ensure_cgroup";
    type Done = ();
    type Failure = ();

    fn on(&self) -> On {
        On::Pod
    }

    fn action(self) -> Action {
        Action::EnsureCgroup(self)
    }

    async fn apply(&self, scene: &Scene) -> Outcome {
        let spec = scene.pod.spec.clone().unwrap_or_default();
        let name = cgroups::name(&spec, &scene.uid);
        let Err(err) = scene.context.parts.cgroups.ensure(&name, self.0.clone()).await else {
            return Outcome::Done(());
        };
        let text = stdx::error_chain(&err);
        let message = format!("unable to ensure pod container exists: {text}");
        let reason = "FailedCreatePodContainer";
        scene.context.event(&scene.pod, EventType::Warning, reason, message);
        Outcome::Failed(())
    }

    fn done(&self, (): (), memory: &mut Memory) {
        memory.cgroup = Some(self.0.clone());
    }
}
