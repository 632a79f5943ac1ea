//! Deletes requests for pods' certificates a while after they were made: whoever waits for one has
//! it by then, or asks anew. Sleeps until the next is due.

mod plan;
#[cfg(test)]
mod tests;

use api::Identified as _;
use api::certificates::PodCertificateRequest;
use apimachinery::ObjectKey;
use client::{Api, DeleteOptions, Preconditions};
use informer::Indexer;
use reconcile::{Failed, Next, Outcome as _, Reconciler, itself};
use stdx::SharedClock;

use self::plan::Verdict;
use crate::{Descriptor, Flags, Startup};

pub(crate) const DESCRIPTOR: Descriptor = Descriptor {
    name: "podcertificaterequest-cleaner-controller",
    aliases: &[],
    identity: "podcertificaterequestcleaner",
    // While its feature gate is on: see `availability`.
    is_on_by_default: true,
    flags: Flags::NONE,
    start,
};

struct Cleaner {
    requests: Indexer<PodCertificateRequest>,
    api: Api<PodCertificateRequest>,
    clock: SharedClock,
}

fn start(startup: &Startup<'_>) {
    let mut controller = startup.controller();
    let reconciler = Cleaner {
        requests: controller.cache(),
        api: startup.client.api(),
        clock: startup.world.clock.clone(),
    };
    controller.watches(itself::<PodCertificateRequest>).run(reconciler);
}

impl Reconciler for Cleaner {
    type Key = ObjectKey;
    type Error = Failed;

    async fn reconcile(&self, key: &ObjectKey) -> Result<Next, Failed> {
        let Some(request) = self.requests.get(key) else { return Ok(Next::Settled) };
        match plan::plan(&request, self.clock.now()) {
            Verdict::Keep => return Ok(Next::Settled),
            Verdict::Wait(left) => return Ok(Next::After(left)),
            Verdict::Delete => {}
        }
        let uid = Some(request.uid().to_owned());
        let preconditions = Preconditions { uid, resource_version: None };
        let options = DeleteOptions { preconditions, ..DeleteOptions::default() };
        let deleted = self.api.delete(&key.namespace, &key.name, options).await;
        deleted.unless_replaced().map_err(Failed::to::<PodCertificateRequest>("delete", key))?;
        Ok(Next::Settled)
    }
}
