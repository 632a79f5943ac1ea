//! Events about an image that is not pulled again yet; the container's status says so from then on.

use reconcile::EventType;

use super::{Action, On, Operation, Outcome, Scene};
use crate::pod_worker::view::{View, wanted};

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct TellPullBackOff {
    pub(crate) name: String,
    /// A volume's, where it is not the container's own.
    pub(crate) image: Option<String>,
}

fn message(image: Option<String>) -> String {
    format!("Back-off pulling image {:?}", image.unwrap_or_default())
}

impl Operation for TellPullBackOff {
    const NAME: &'static str = "tell_pull_back_off";
    type Done = ();
    type Failure = ();

    fn on(&self) -> On {
        On::Container(self.name.clone())
    }

    fn action(self) -> Action {
        Action::TellPullBackOff(self)
    }

    fn begin(&self, view: &mut View) {
        let found = wanted(view.spec()).into_iter().find(|it| it.name() == self.name);
        let own = found.and_then(|it| it.container.image);
        let message = message(self.image.clone().or(own));
        if let Some(trouble) = view.memory.troubles.get_mut(&self.name) {
            trouble.message = format!("{message}: ErrImagePull: {}", trouble.message);
            trouble.reason = "ImagePullBackOff";
        }
    }

    async fn apply(&self, scene: &Scene) -> Outcome {
        let about = (&*scene.pod, self.name.as_str());
        match self.image.clone() {
            Some(of_volume) => {
                let message = message(Some(of_volume));
                scene.context.event(&scene.pod, EventType::Normal, "BackOff", message);
            }
            None => {
                let message = message(scene.container(&self.name).image);
                scene.context.container_event(about, EventType::Normal, "BackOff", message);
            }
        }
        let error = "Error: ImagePullBackOff".to_owned();
        scene.context.container_event(about, EventType::Warning, "Failed", error);
        Outcome::Done(())
    }
}
