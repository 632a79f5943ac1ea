//! An event about a container that waits after it ended, once for each run.

use node_api::ContainerId;
use reconcile::EventType;

use super::{Action, On, Operation, Outcome, Scene};
use crate::pod_worker::view::{View, pod_text};

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct TellBackOff {
    pub(crate) name: String,
    pub(crate) run: ContainerId,
}

impl Operation for TellBackOff {
    const NAME: &'static str = "tell_back_off";
    type Done = ();
    type Failure = ();

    fn on(&self) -> On {
        On::Container(self.name.clone())
    }

    fn action(self) -> Action {
        Action::TellBackOff(self)
    }

    fn begin(&self, view: &mut View) {
        view.memory.told.insert(self.run.clone());
        view.memory.troubles.remove(&self.name);
    }

    async fn apply(&self, scene: &Scene) -> Outcome {
        let (pod, name) = (&scene.pod, &self.name);
        let text = pod_text(pod);
        let message = format!("Back-off restarting failed container {name} in pod {text}");
        scene.context.container_event((pod, name), EventType::Warning, "BackOff", message);
        Outcome::Done(())
    }
}
