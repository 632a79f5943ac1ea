//! What goes on beside requests: an IPAddress that somebody deletes while a Service has the address
//! comes back, and so does the ServiceCIDR of the server's own ranges.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use api::core::Service;
use api::networking::IPAddress;
use api::{Resource as _, Stored};
use apimachinery::ObjectKey;
use lifecycle::Shutdown;
use tokio::sync::Notify;

use super::objects;
use crate::cache::Change;
use crate::pipeline::Core;
use crate::plan::Plan;

/// Before what could not be written is tried again.
const LOOK_AFTER: Duration = Duration::from_secs(10);

#[derive(Default)]
pub(super) struct Upkeep {
    /// Addresses whose objects may not be as they should, with their Services.
    pending: Mutex<BTreeSet<(IpAddr, ObjectKey)>>,
    changed: Notify,
}

impl Upkeep {
    fn enqueue(&self, all: impl IntoIterator<Item = (IpAddr, ObjectKey)>) {
        self.pending().extend(all);
        self.changed.notify_one();
    }

    fn pending(&self) -> MutexGuard<'_, BTreeSet<(IpAddr, ObjectKey)>> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The first address comes and goes with the Service itself.
    pub(super) fn follow_service(&self, change: &Change) {
        let typed = |it: &Arc<Stored>| it.shared::<Service>().ok();
        let old = change.previous.as_ref().and_then(typed);
        let new = change.object.as_ref().and_then(typed);
        let (come, go) = objects::changed(old.as_deref(), new.as_deref());
        if come.len() + go.len() > 1 {
            let key = &change.latest().meta.key;
            self.enqueue(come.into_iter().chain(go).map(|it| (it, key.clone())));
        }
    }

    pub(super) fn follow_object(&self, change: &Change) {
        let gone = change.previous.as_ref().filter(|_| change.object.is_none());
        if let Some(Ok(object)) = gone.map(|it| IPAddress::decode(&it.bytes)) {
            self.enqueue(objects::holder_of(&object));
        }
    }

    pub(super) fn follow_range(&self) {
        self.changed.notify_one();
    }

    pub(super) async fn run(self: Arc<Self>, core: Arc<Core>, shutdown: Shutdown) {
        loop {
            let is_waiting = !self.mend(&core).await;
            tokio::select! {
                biased;
                () = shutdown.cancelled() => return,
                () = self.changed.notified() => {}
                () = tokio::time::sleep(LOOK_AFTER), if is_waiting => {}
            }
        }
    }

    /// Whether nothing is left to do.
    async fn mend(&self, core: &Core) -> bool {
        let pending = std::mem::take(&mut *self.pending());
        let mut plan = Plan::default();
        objects::plan_default(core, &mut plan);
        for (address, service) in &pending {
            objects::plan_one(core, *address, service, &mut plan);
        }
        let is_done = match plan.apply_singly(core).await {
            Ok(is_done) => is_done,
            Err(err) => {
                tracing::warn!(error = %stdx::error_chain(&err), "an IPAddress could not be written");
                false
            }
        };
        if !is_done {
            self.pending().extend(pending);
        }
        is_done
    }
}
