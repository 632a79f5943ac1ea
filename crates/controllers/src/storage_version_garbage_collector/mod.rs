//! Takes servers out of StorageVersions whose identity Leases are gone, and those StorageVersions
//! away that no server is left in.

mod garbage;
mod plan;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::sync::Arc;

use api::Identified as _;
use api::apiserverinternal::StorageVersion;
use api::coordination::lease::Lease;
use apimachinery::ObjectKey;
use client::{Api, DeleteOptions, Preconditions};
use informer::Indexer;
use reconcile::{Change, Failed, Next, Outcome as _, OwnWrites, PATIENCE, Reconciler, itself};
use stdx::SharedClock;

pub(crate) use self::garbage::plan_any;
use self::plan::Action;
use crate::{Descriptor, Flags, Startup};

pub(crate) const DESCRIPTOR: Descriptor = Descriptor {
    name: "storageversion-garbage-collector-controller",
    aliases: &["storage-version-gc"],
    identity: "storage-version-garbage-collector",
    // While its feature gate is on: see `availability`.
    is_on_by_default: true,
    flags: Flags::NONE,
    start,
};

/// Index of StorageVersions: the servers in them.
const BY_SERVER: &str = "server";
/// Where servers have their Leases.
const NAMESPACE: &str = "kube-system";

struct Collector {
    versions: Indexer<StorageVersion>,
    leases: Indexer<Lease>,
    writes: Arc<OwnWrites<StorageVersion>>,
    api: Api<StorageVersion>,
    leases_api: Api<Lease>,
    clock: SharedClock,
}

fn start(startup: &Startup<'_>) {
    let mut controller = startup.controller();
    let versions: Indexer<StorageVersion> = controller.indexed_cache(&[(BY_SERVER, by_server)]);
    let reconciler = Collector {
        versions: versions.clone(),
        leases: controller.cache(),
        writes: controller.own_writes(PATIENCE),
        api: startup.client.api(),
        leases_api: startup.client.api(),
        clock: startup.world.clock.clone(),
    };
    controller
        .watches(itself::<StorageVersion>)
        .follows(move |change: Change<'_, Lease>, queue| {
            let Change::Deleted(lease) = change else { return };
            if lease.key().namespace == NAMESPACE && plan::is_identity(lease) {
                let of_it = versions.by_index(BY_SERVER, &lease.key().name);
                of_it.iter().for_each(|it| queue.add(it.key()));
            }
        })
        .run(reconciler);
}

fn by_server(version: &StorageVersion) -> Vec<String> {
    let servers: BTreeSet<String> =
        plan::servers(version).map(|it| it.api_server_id.clone()).collect();
    servers.into_iter().collect()
}

impl Reconciler for Collector {
    type Key = ObjectKey;
    type Error = Failed;

    async fn reconcile(&self, key: &ObjectKey) -> Result<Next, Failed> {
        if let Some(wait) = self.writes.wait(key) {
            return Ok(Next::After(wait));
        }
        let Some(version) = self.versions.get(key) else { return Ok(Next::Settled) };
        let mut gone = BTreeSet::new();
        for server in by_server(&version) {
            if !self.lives(&server).await? {
                gone.insert(server);
            }
        }
        let now = self.clock.now();
        match plan::plan(&version, |it| !gone.contains(it), now) {
            None => {}
            Some(Action::Delete) => {
                let preconditions = Preconditions {
                    uid: Some(version.uid().to_owned()),
                    resource_version: version.metadata.resource_version.clone(),
                };
                let options = DeleteOptions { preconditions, ..DeleteOptions::default() };
                let deleted = self.api.delete("", &key.name, options).await.unless_gone();
                let failed = Failed::to::<StorageVersion>("delete", key);
                if deleted.map_err(failed)?.is_some() {
                    self.writes.deleted(key, &*version);
                }
            }
            Some(Action::Write(left)) => {
                let written = self.api.update_status(*left).await.unless_gone();
                let failed = Failed::to::<StorageVersion>("write the status of", key);
                if let Some(written) = written.map_err(failed)? {
                    self.writes.wrote(key, written.meta());
                }
            }
        }
        Ok(Next::Settled)
    }
}

impl Collector {
    /// A server that the cache does not show may be a new one: then the API knows it.
    async fn lives(&self, server: &str) -> Result<bool, Failed> {
        let key = ObjectKey::new(NAMESPACE, server);
        if self.leases.get(&key).is_some_and(|it| plan::is_identity(&it)) {
            return Ok(true);
        }
        let lease = self.leases_api.get(NAMESPACE, server).await.unless_gone();
        let lease = lease.map_err(Failed::to::<Lease>("read", &key))?;
        Ok(lease.is_some_and(|it| plan::is_identity(&it)))
    }
}
