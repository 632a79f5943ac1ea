//! Everybody is told that a pod has the size that the node has agreed to.

use reconcile::EventType;

use super::{Action, On, Operation, Outcome, Scene};
use crate::allocation;
use crate::pod_worker::memory::Memory;
use crate::pod_worker::view::View;

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct TellResized {
    pub(crate) generation: i64,
}

impl Operation for TellResized {
    const NAME: &'static str = "tell_resized";
    type Done = ();
    type Failure = ();

    fn on(&self) -> On {
        On::Pod
    }

    fn action(self) -> Action {
        Action::TellResized(self)
    }

    fn begin(&self, view: &mut View) {
        view.memory.resizing = None;
        view.memory.resize_error = None;
    }

    async fn apply(&self, scene: &Scene) -> Outcome {
        let message = allocation::completed(&scene.pod, self.generation);
        scene.context.event(&scene.pod, EventType::Normal, "ResizeCompleted", message);
        Outcome::Done(())
    }

    fn done(&self, (): (), _memory: &mut Memory) {}
}
