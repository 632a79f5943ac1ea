//! Deletes bootstrap tokens when they have ended; sleeps until then.

mod garbage;
mod plan;
#[cfg(test)]
mod tests;

use api::Identified as _;
use api::core::Secret;
use api::core::secret::SecretView;
use apimachinery::ObjectKey;
use client::{Api, DeleteOptions, Preconditions};
use informer::Indexer;
use reconcile::{Failed, Next, Outcome as _, Reconciler};
use stdx::SharedClock;

pub(crate) use self::garbage::plan_any;
use self::plan::Verdict;
use crate::{Descriptor, Flags, Startup, bootstrap_tokens};

pub(crate) const DESCRIPTOR: Descriptor = Descriptor {
    name: "token-cleaner-controller",
    aliases: &["tokencleaner"],
    identity: "token-cleaner",
    is_on_by_default: false,
    flags: Flags::NONE,
    start,
};

struct Cleaner {
    secrets: Indexer<SecretView>,
    api: Api<Secret>,
    clock: SharedClock,
}

fn start(startup: &Startup<'_>) {
    let mut controller = startup.controller();
    let reconciler = Cleaner {
        secrets: controller.cache(),
        api: startup.client.api(),
        clock: startup.world.clock.clone(),
    };
    controller
        .watches(|it: &SecretView| bootstrap_tokens::of(it).map(|_| it.key()))
        .run(reconciler);
}

impl Reconciler for Cleaner {
    type Key = ObjectKey;
    type Error = Failed;

    async fn reconcile(&self, key: &ObjectKey) -> Result<Next, Failed> {
        let Some(secret) = self.secrets.get(key) else { return Ok(Next::Settled) };
        match plan::plan(&secret, self.clock.now()) {
            Verdict::Keep => return Ok(Next::Settled),
            Verdict::Wait(left) => return Ok(Next::After(left)),
            Verdict::Delete => {}
        }
        // As it was looked at: its end may have been put off since.
        let uid = Some(secret.uid().to_owned());
        let resource_version = Some(secret.version().to_string());
        let preconditions = Preconditions { uid, resource_version };
        let options = DeleteOptions { preconditions, ..DeleteOptions::default() };
        let deleted = self.api.delete(&key.namespace, &key.name, options).await;
        deleted.unless_replaced().map_err(Failed::to::<Secret>("delete", key))?;
        Ok(Next::Settled)
    }
}
