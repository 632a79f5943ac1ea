//! Objects that are deleted when their time is over: what controllers share that do no more than
//! that. They sleep until the next is due. A deletion carries the version that was looked at, so
//! that a cache that does not show it yet changes nothing.

use std::time::Duration;

use api::Resource;
use apimachinery::ObjectKey;
use client::{Api, DeleteOptions, Preconditions};
use informer::Indexer;
use jiff::Timestamp;
use reconcile::{Failed, Next, Outcome as _, Reconciler, itself};
use stdx::SharedClock;

use crate::Startup;

#[derive(Debug, PartialEq)]
pub(crate) enum Verdict {
    /// It has no end, or is being deleted already.
    Keep,
    Wait(Duration),
    Delete,
}

impl Verdict {
    pub(crate) fn of(due: Timestamp, now: Timestamp) -> Self {
        match Duration::try_from(due.duration_since(now)) {
            Ok(left) if !left.is_zero() => Self::Wait(left),
            _ => Self::Delete,
        }
    }
}

struct Expiry<T> {
    objects: Indexer<T>,
    api: Api<T>,
    plan: fn(&T, Timestamp) -> Verdict,
    clock: SharedClock,
}

/// Follows all objects of the kind.
pub(crate) fn start<T: Resource>(startup: &Startup<'_>, plan: fn(&T, Timestamp) -> Verdict) {
    let mut controller = startup.controller();
    let reconciler = Expiry {
        objects: controller.cache(),
        api: startup.client.api(),
        plan,
        clock: startup.world.clock.clone(),
    };
    controller.watches(itself::<T>).run(reconciler);
}

impl<T: Resource> Reconciler for Expiry<T> {
    type Key = ObjectKey;
    type Error = Failed;

    async fn reconcile(&self, key: &ObjectKey) -> Result<Next, Failed> {
        let Some(object) = self.objects.get(key) else { return Ok(Next::Settled) };
        match (self.plan)(&object, self.clock.now()) {
            Verdict::Keep => return Ok(Next::Settled),
            Verdict::Wait(left) => return Ok(Next::After(left)),
            Verdict::Delete => {}
        }
        // As it was looked at: one that has changed since may have more time.
        let meta = object.metadata();
        let (uid, resource_version) = (meta.uid.clone(), meta.resource_version.clone());
        let preconditions = Preconditions { uid, resource_version };
        let options = DeleteOptions { preconditions, ..DeleteOptions::default() };
        let deleted = self.api.delete(&key.namespace, &key.name, options).await;
        deleted.unless_replaced().map_err(Failed::to::<T>("delete", key))?;
        Ok(Next::Settled)
    }
}
