//! An event about a pod that was active for as long as it may be.

use reconcile::EventType;

use super::{Action, On, Operation, Outcome, Scene};

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct TellDeadline;

impl Operation for TellDeadline {
    const NAME: &'static str = "tell_deadline";
    type Done = ();
    type Failure = ();

    fn on(&self) -> On {
        On::Pod
    }

    fn action(self) -> Action {
        Action::TellDeadline(self)
    }

    async fn apply(&self, scene: &Scene) -> Outcome {
        let message = "Pod was active on the node longer than the specified deadline".to_owned();
        scene.context.event(&scene.pod, EventType::Normal, "DeadlineExceeded", message);
        Outcome::Done(())
    }
}
