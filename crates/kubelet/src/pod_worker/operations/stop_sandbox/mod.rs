//! A sandbox that is not needed any more, or died by itself: what it held is given back.

use node_api::SandboxId;

use super::{Action, On, Operation, Outcome, Scene};
use crate::pod_worker::memory::Memory;

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct StopSandbox(pub(crate) SandboxId);

impl Operation for StopSandbox {
    const NAME: &'static str = "stop_sandbox";
    const CHANGES_SANDBOXES: bool = true;
    type Done = ();
    type Failure = ();

    fn on(&self) -> On {
        On::Sandbox(self.0.clone())
    }

    fn action(self) -> Action {
        Action::StopSandbox(self)
    }

    async fn apply(&self, scene: &Scene) -> Outcome {
        Outcome::of_node(scene.context.parts.sandboxes.stop(&self.0).await)
    }

    fn done(&self, (): (), memory: &mut Memory) {
        memory.stopped.insert(self.0.clone());
    }
}
