//! The pod's volumes, cgroup and folder go. All are tried; what is left is tried again.

use super::{Action, On, Operation, Outcome, Scene};
use crate::pod_worker::memory::Memory;
use crate::{cgroups, disk, volumes};

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct TearDown;

impl Operation for TearDown {
    const NAME: &'static str = "tear_down";
    type Done = ();
    type Failure = ();

    fn on(&self) -> On {
        On::Pod
    }

    fn action(self) -> Action {
        Action::TearDown(self)
    }

    /// Volumes first: a cgroup that is left can be removed later, a mount that is left holds files.
    async fn apply(&self, scene: &Scene) -> Outcome {
        let parts = &scene.context.parts;
        let spec = scene.pod.spec.clone().unwrap_or_default();
        let volumes = parts.volumes.as_ref();
        let mut problems = volumes::remove_all(volumes, &scene.uid, scene.has_running()).await;
        let cgroup = parts.cgroups.remove(&cgroups::name(&spec, &scene.uid)).await;
        let folder = disk::remove_folder(scene.context.pod_directory(&scene.uid)).await;
        problems.extend(cgroup.err().map(|it| stdx::error_chain(&it)));
        problems.extend(folder.err().map(|it| stdx::error_chain(&it)));
        if problems.is_empty() {
            return Outcome::Done(());
        }
        let problem = problems.join("; ");
        tracing::warn!(uid = %scene.uid, error = problem, "pod not torn down yet");
        Outcome::Failed(())
    }

    fn done(&self, (): (), memory: &mut Memory) {
        memory.is_torn_down = true;
    }
}
