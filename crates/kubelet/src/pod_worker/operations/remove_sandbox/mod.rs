//! A dead sandbox with what is left of its containers.

use node_api::SandboxId;

use super::{Action, On, Operation, Outcome, Scene};

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct RemoveSandbox(pub(crate) SandboxId);

impl Operation for RemoveSandbox {
    const NAME: &'static str = "remove_sandbox";
    const CHANGES_SANDBOXES: bool = true;
    type Done = ();
    type Failure = ();

    fn on(&self) -> On {
        On::Sandbox(self.0.clone())
    }

    fn action(self) -> Action {
        Action::RemoveSandbox(self)
    }

    async fn apply(&self, scene: &Scene) -> Outcome {
        Outcome::of_node(scene.context.parts.sandboxes.remove(&self.0).await)
    }
}
