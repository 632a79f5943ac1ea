//! An old run that nobody needs for its logs any more.

use node_api::ContainerId;

use super::{Action, On, Operation, Outcome, Scene};

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct RemoveContainer(pub(crate) ContainerId);

impl Operation for RemoveContainer {
    const NAME: &'static str = "remove_container";
    type Done = ();
    type Failure = ();

    fn on(&self) -> On {
        On::Run(self.0.clone())
    }

    fn action(self) -> Action {
        Action::RemoveContainer(self)
    }

    async fn apply(&self, scene: &Scene) -> Outcome {
        Outcome::of_node(scene.context.parts.containers.remove(&self.0).await)
    }
}
