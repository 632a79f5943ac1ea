//! One task for each pod on the node: it waits for one thing to happen, takes one step, and starts
//! what the step asks for.
//!
//! `step` decides, purely; `operations` do; `task` joins them. What is under way is known by name,
//! so nothing is started twice.

mod containers;
mod memory;
mod messages;
mod operations;
pub(crate) mod resize;
mod restart;
mod step;
mod task;
#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;
mod view;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use k8s_openapi::api::core::v1::Pod;
use lifecycle::Tasks;
use node_api::PodUid;
use tokio::sync::{mpsc, watch};

use crate::allocation::{Allocation, Pending};
use crate::context::Context;

pub(crate) use containers::{waiting_run, will_restart};
pub(crate) use restart::{render_duration, restarts};
pub(crate) use step::{Cause, Ending, Life};
pub(crate) use view::{Role, View, Wanted, wanted};

/// What the pod's source says.
#[derive(Clone, Debug)]
pub(crate) struct Desired {
    pub(crate) pod: Arc<Pod>,
    /// What of it the node has agreed to, and why to no more.
    pub(crate) allocation: Arc<Allocation>,
    pub(crate) pending: Option<Pending>,
    /// Static pods only: what stands for it in the API. Its status is the pod's.
    pub(crate) mirror: Option<Arc<Pod>>,
    pub(crate) is_static: bool,
    /// It is no longer in its source.
    pub(crate) is_removed: bool,
    /// Why it was not let in: reason and message. Fixed at the first sight.
    pub(crate) rejection: Option<(String, String)>,
}

impl Desired {
    /// The pod with what it was given.
    pub(crate) fn allocated(&self) -> Arc<Pod> {
        self.allocation.apply(&self.pod)
    }
}

/// Counts changes on the node, so that none is missed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Pokes {
    containers: u64,
    sandboxes: u64,
}

/// A running worker.
pub(crate) struct Worker {
    desired: watch::Sender<Desired>,
    pokes: watch::Sender<Pokes>,
    is_over: Arc<AtomicBool>,
}

impl Worker {
    /// `ended` hears the uid when nothing of the pod is left and its source has forgotten it.
    pub(crate) fn spawn(
        tasks: &Tasks,
        context: Arc<Context>,
        uid: PodUid,
        desired: Desired,
        ended: mpsc::Sender<PodUid>,
    ) -> Self {
        let (desired, desired_rx) = watch::channel(desired);
        let (pokes, pokes_rx) = watch::channel(Pokes::default());
        let is_over = Arc::new(AtomicBool::new(desired.borrow().rejection.is_some()));
        let over = is_over.clone();
        tasks.spawn(&format!("pod/{uid}"), |shutdown| {
            task::run(context, uid, desired_rx, pokes_rx, (ended, over, shutdown))
        });
        Self { desired, pokes, is_over }
    }

    /// Whether the pod has finished, and others may have what it took.
    pub(crate) fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Relaxed)
    }

    pub(crate) fn update(&self, change: impl FnOnce(&mut Desired)) {
        self.desired.send_modify(change);
    }

    pub(crate) fn desired(&self) -> Desired {
        self.desired.borrow().clone()
    }

    /// A container of the pod started or ended.
    pub(crate) fn containers_changed(&self) {
        self.pokes.send_modify(|it| it.containers += 1);
    }

    /// A sandbox of the pod ended.
    pub(crate) fn sandboxes_changed(&self) {
        self.pokes.send_modify(|it| it.sandboxes += 1);
    }
}
