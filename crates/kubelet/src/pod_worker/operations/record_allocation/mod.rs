//! What the node has agreed to is on disk: from then on it is what the pod has.

use std::collections::BTreeMap;
use std::sync::Arc;

use node_api::ContainerId;
use reconcile::EventType;

use super::{Action, On, Op, Operation, Outcome, ResizePod, Scene};
use crate::allocation::{self, Allocation, Size, Written};
use crate::pod_worker::memory::Memory;

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct RecordAllocation {
    pub(crate) allocation: Arc<Allocation>,
    pub(crate) resized: BTreeMap<ContainerId, Size>,
    /// Something else was agreed to before.
    pub(crate) is_resize: bool,
}

impl Operation for RecordAllocation {
    const NAME: &'static str = "record_allocation";
    type Done = ();
    type Failure = ();

    fn on(&self) -> On {
        On::Pod
    }

    fn action(self) -> Action {
        Action::RecordAllocation(self)
    }

    async fn apply(&self, scene: &Scene) -> Outcome {
        let resized = self.resized.iter().map(|(id, size)| (id.to_string(), *size)).collect();
        let written = Written { allocation: (*self.allocation).clone(), resized };
        let directory = scene.context.pod_directory(&scene.uid);
        if let Err(err) = allocation::write(&directory, written).await {
            tracing::warn!(uid = %scene.uid, error = %err, "what a pod was given is not on disk");
            return Outcome::Failed(());
        }
        if self.is_resize {
            let pod = self.allocation.apply(&scene.pod);
            let message = allocation::started(&pod, self.allocation.generation);
            scene.context.event(&pod, EventType::Normal, "ResizeStarted", message);
        }
        Outcome::Done(())
    }

    fn done(&self, (): (), memory: &mut Memory) {
        memory.is_recorded = true;
        if self.is_resize {
            memory.recorded = Some(self.allocation.clone());
            memory.resizing = Some(self.allocation.generation);
            memory.resize_error = None;
            // What went wrong before was another size.
            memory.retries.remove(&Op::of::<ResizePod>(On::Pod));
        }
    }
}
