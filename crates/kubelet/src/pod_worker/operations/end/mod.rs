//! The worker's work is done: the pod's logs go, and then the worker.

use super::{Action, On, Operation, Outcome, Scene};
use crate::disk;
use crate::pod_worker::memory::Memory;

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct End;

impl Operation for End {
    const NAME: &'static str = "end";
    type Done = ();
    type Failure = ();

    fn on(&self) -> On {
        On::Pod
    }

    fn action(self) -> Action {
        Action::End(self)
    }

    async fn apply(&self, scene: &Scene) -> Outcome {
        match disk::remove_folder(scene.context.log_directory(&scene.pod)).await {
            Ok(()) => Outcome::Done(()),
            Err(_) => Outcome::Failed(()),
        }
    }

    fn done(&self, (): (), memory: &mut Memory) {
        memory.is_ended = true;
    }
}
