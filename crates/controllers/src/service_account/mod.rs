//! Every active namespace has the ServiceAccount `default`.

mod garbage;
mod plan;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use api::core::namespace::Namespace;
use api::core::service_account::ServiceAccount;
use api::object::key_of;
use apimachinery::ObjectKey;
use client::Api;
use informer::Indexer;
use reconcile::{Failed, Next, Outcome as _, OwnWrites, PATIENCE, Reconciler, itself};

pub(crate) use self::garbage::plan_any;
use self::plan::NAME;
use crate::{Descriptor, Flags, Startup, owners};

pub(crate) const DESCRIPTOR: Descriptor = Descriptor {
    name: "serviceaccount-controller",
    aliases: &["serviceaccount"],
    identity: "service-account-controller",
    is_on_by_default: true,
    flags: Flags::NONE,
    start,
};

struct ServiceAccounts {
    namespaces: Indexer<Namespace>,
    accounts: Indexer<ServiceAccount>,
    own_writes: Arc<OwnWrites<ServiceAccount>>,
    api: Api<ServiceAccount>,
}

fn start(startup: &Startup<'_>) {
    let mut controller = startup.controller();
    let reconciler = ServiceAccounts {
        namespaces: controller.cache(),
        accounts: controller.cache(),
        own_writes: controller.own_writes(PATIENCE),
        api: startup.client.api(),
    };
    controller
        .watches(itself::<Namespace>)
        .watches(|it: &ServiceAccount| owners::namespace_of_named(&it.metadata, NAME))
        .run(reconciler);
}

impl Reconciler for ServiceAccounts {
    type Key = ObjectKey;
    type Error = Failed;

    async fn reconcile(&self, key: &ObjectKey) -> Result<Next, Failed> {
        if let Some(wait) = self.own_writes.wait(key) {
            return Ok(Next::After(wait));
        }
        let namespace = &key.name;
        let observed = self.namespaces.get(key);
        let stored = self.accounts.get(&ObjectKey::new(namespace, NAME));
        let Some(account) = plan::plan(observed.as_deref(), stored.as_deref()) else {
            return Ok(Next::Settled);
        };
        let wanted = key_of(&account.metadata);
        let created = self.api.create(account).await.unless_there_or_over();
        if let Some(created) = created.map_err(Failed::to::<ServiceAccount>("create", &wanted))? {
            self.own_writes.wrote(key, created.meta());
        }
        Ok(Next::Settled)
    }
}
