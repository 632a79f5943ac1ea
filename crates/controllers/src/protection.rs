//! Objects that are not deleted while somebody uses them: what controllers share that do no more
//! than that, for as long as caches alone say who that is. Each object has a finalizer, also one
//! that was made before admission gave it one.

use std::sync::Arc;
use std::time::Duration;

use api::Resource;
use apimachinery::ObjectKey;
use client::Api;
use informer::Indexer;
use reconcile::{
    Controller, EventRecorder, Failed, Next, Outcome as _, OwnWrites, PATIENCE, Reconciler,
};
use stdx::SharedClock;

use crate::explanations::{Explanation, Explanations, list};
use crate::{Startup, finalizers};

/// Most users go in the same moment, one after the other.
pub(crate) const HOLD: Duration = Duration::from_secs(10);

/// Why an object stays that is being deleted: a reason and a sentence. Pure.
pub(crate) fn explain(what: &str, users: &[String]) -> Option<Explanation> {
    let message =
        || format!("it is deleted when nothing uses it any more; {what}: {}", list(users));
    (!users.is_empty()).then(|| ("InUse", message()))
}

/// The object with or without its finalizer, as it should be. Pure.
pub(crate) fn plan<T: Resource>(object: &T, finalizer: &str, is_used: bool) -> Option<T> {
    let meta = object.metadata();
    if finalizers::is_unprotected(meta, finalizer) {
        return Some(finalizers::protected(object, finalizer));
    }
    let is_over = finalizers::is_kept(meta, finalizer) && !is_used;
    is_over.then(|| finalizers::released(object, finalizer))
}

/// Who uses an object, each as a user knows it.
type Users<T> = Box<dyn Fn(&T) -> Vec<String> + Send + Sync>;

pub(crate) struct Protection<T> {
    finalizer: &'static str,
    /// What uses it, in the plural.
    by: &'static str,
    users: Users<T>,
    objects: Indexer<T>,
    writes: Arc<OwnWrites<T>>,
    api: Api<T>,
    explanations: Explanations,
    events: EventRecorder,
    clock: SharedClock,
}

impl<T: Resource> Protection<T> {
    pub(crate) fn new(
        startup: &Startup<'_>,
        controller: &mut Controller,
        (finalizer, by): (&'static str, &'static str),
        users: impl Fn(&T) -> Vec<String> + Send + Sync + 'static,
    ) -> Self {
        Self {
            finalizer,
            by,
            users: Box::new(users),
            objects: controller.cache(),
            writes: controller.own_writes(PATIENCE),
            api: startup.client.api(),
            explanations: Explanations::new(HOLD),
            events: startup.events(),
            clock: startup.world.clock.clone(),
        }
    }
}

impl<T: Resource> Reconciler for Protection<T> {
    type Key = ObjectKey;
    type Error = Failed;

    async fn reconcile(&self, key: &ObjectKey) -> Result<Next, Failed> {
        if let Some(wait) = self.writes.wait(key) {
            return Ok(Next::After(wait));
        }
        let Some(object) = self.objects.get(key) else {
            self.explanations.forget(key);
            return Ok(Next::Settled);
        };
        // Only then does it matter.
        let users = match finalizers::is_kept(object.metadata(), self.finalizer) {
            true => (self.users)(&object),
            false => Vec::new(),
        };
        let said = explain(self.by, &users);
        let held = self.explanations.tell(&self.events, &*object, said, self.clock.now());
        if let Some(wanted) = plan(&*object, self.finalizer, !users.is_empty()) {
            let written = self.api.update(wanted).await.unless_gone();
            let written = written.map_err(Failed::to::<T>("set the finalizer of", key))?;
            if let Some(written) = written {
                self.writes.changed(key, &object, written.meta());
            }
        }
        Ok(held.map_or(Next::Settled, Next::After))
    }
}
