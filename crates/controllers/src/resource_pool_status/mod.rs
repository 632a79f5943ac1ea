//! Answers ResourcePoolStatusRequests once, and takes them away when they are old.

mod garbage;
mod plan;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use api::Identified as _;
use api::resource::{ResourceClaim, ResourcePoolStatusRequest, ResourceSlice};
use apimachinery::ObjectKey;
use client::{Api, DeleteOptions, Preconditions};
use informer::Indexer;
use reconcile::{Change, Failed, Next, Outcome as _, OwnWrites, PATIENCE, Reconciler, itself};
use stdx::SharedClock;

pub(crate) use self::garbage::plan_any;
use self::plan::{Action, Observed};
use crate::{Descriptor, Flags, Startup};

pub(crate) const DESCRIPTOR: Descriptor = Descriptor {
    name: "resourcepoolstatusrequest-controller",
    aliases: &[],
    identity: "resourcepoolstatusrequest-controller",
    // While its feature gate is on: see `availability`.
    is_on_by_default: true,
    flags: Flags::NONE,
    start,
};

/// Index of slices: their drivers.
const BY_DRIVER: &str = "driver";

/// Before a request that cannot be answered is left until something changes.
const RETRIES: u32 = 5;

struct Answers {
    requests: Indexer<ResourcePoolStatusRequest>,
    slices: Indexer<ResourceSlice>,
    claims: Indexer<ResourceClaim>,
    writes: Arc<OwnWrites<ResourcePoolStatusRequest>>,
    api: Api<ResourcePoolStatusRequest>,
    clock: SharedClock,
}

fn start(startup: &Startup<'_>) {
    let mut controller = startup.controller();
    let requests: Indexer<ResourcePoolStatusRequest> = controller.cache();
    let reconciler = Answers {
        requests: requests.clone(),
        slices: controller.indexed_cache(&[(BY_DRIVER, |it| vec![it.spec.driver.clone()])]),
        claims: controller.cache(),
        writes: controller.own_writes(PATIENCE),
        api: startup.client.api(),
        clock: startup.world.clock.clone(),
    };
    controller
        .watches(itself::<ResourcePoolStatusRequest>)
        // Requests may wait for slices of their driver; there are few.
        .follows(move |change: Change<'_, ResourceSlice>, queue| {
            let driver = &change.latest().spec.driver;
            let is_waiting = |it: &&Arc<ResourcePoolStatusRequest>| {
                it.status.is_none() && it.spec.driver == *driver
            };
            requests.list().iter().filter(is_waiting).for_each(|it| queue.add(it.key()));
        })
        .gives_up_after(RETRIES)
        .run(reconciler);
}

impl Reconciler for Answers {
    type Key = ObjectKey;
    type Error = Failed;

    async fn reconcile(&self, key: &ObjectKey) -> Result<Next, Failed> {
        if let Some(wait) = self.writes.wait(key) {
            return Ok(Next::After(wait));
        }
        let Some(request) = self.requests.get(key) else { return Ok(Next::Settled) };
        let (slices, claims) = match request.status {
            None => (self.slices.by_index(BY_DRIVER, &request.spec.driver), self.claims.list()),
            Some(_) => Default::default(),
        };
        let now = self.clock.now();
        let observed = Observed { request: &request, slices: &slices, claims: &claims, now };
        match plan::plan(&observed) {
            Action::Wait(left) => return Ok(Next::After(left)),
            Action::Answer(status) => {
                let answered = ResourcePoolStatusRequest {
                    status: Some(*status),
                    ..ResourcePoolStatusRequest::clone(&request)
                };
                let written = self.api.update_status(answered).await.unless_gone();
                let failed = Failed::to::<ResourcePoolStatusRequest>("answer", key);
                if let Some(written) = written.map_err(failed)? {
                    self.writes.wrote(key, written.meta());
                }
            }
            Action::Delete => {
                let uid = Some(request.uid().to_owned());
                let preconditions = Preconditions { uid, resource_version: None };
                let options = DeleteOptions { preconditions, ..DeleteOptions::default() };
                let deleted = self.api.delete("", &key.name, options).await.unless_replaced();
                let failed = Failed::to::<ResourcePoolStatusRequest>("delete", key);
                if deleted.map_err(failed)?.is_some() {
                    self.writes.deleted(key, &*request);
                }
            }
        }
        Ok(Next::Settled)
    }
}
