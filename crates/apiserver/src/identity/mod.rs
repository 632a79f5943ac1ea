//! Says that this server lives: a Lease in kube-system under a name made of its machine's, as
//! upstream's servers have one each. It is renewed every ten seconds, goes with the server, and is
//! cleared away by the others an hour after its server fell silent. Where StorageVersions are
//! served, the server says in them what it stores; whoever clears those goes by the Leases.

mod plan;
mod storage_versions;

use std::sync::Arc;
use std::time::Duration;

use api::Lookup;
use api::apiserverinternal::StorageVersion;
use api::coordination::lease::Lease;
use apimachinery::{ApiError, GroupVersionResource, ObjectKey};
use features::STORAGE_VERSION_API;
use lifecycle::{Shutdown, Tasks};
use tokio::time::Instant;

use self::plan::{Own, Write, id, is_over, plan};
use self::storage_versions::Published;
use crate::own_calls;
use crate::pipeline::Core;

const NAMESPACE: &str = "kube-system";
const RENEW_EVERY: Duration = Duration::from_secs(10);
/// Before what could not be written is tried again.
const RETRY_AFTER: Duration = Duration::from_secs(2);
/// Between looks for Leases of servers that are gone.
const SWEEP_EVERY: Duration = Duration::from_secs(3600);
/// What saying goodbye may take.
const LEAVE_MAX: Duration = Duration::from_secs(1);

/// Starts what a server says of itself, if it knows where it runs.
pub(crate) fn spawn(core: &Arc<Core>, tasks: &Tasks) {
    let host = &core.config.host_name;
    if host.is_empty() {
        return;
    }
    let id = id(host, core.config.advertise.port());
    let holder = format!("{id}_{}", core.world.random.uuid());
    let identity = Identity { own: Own { id, host: host.clone(), holder }, core: core.clone() };
    tasks.spawn("identity-lease", |shutdown| identity.run(shutdown));
}

struct Identity {
    own: Own,
    core: Arc<Core>,
}

impl Identity {
    async fn run(self, shutdown: Shutdown) {
        // One that an earlier process left says nothing of this one.
        if let Err(err) = self.delete().await {
            tracing::debug!(error = %stdx::error_chain(&err), "the old identity lease stays");
        }
        let mut published = self.publishes().then(Published::default);
        let (mut sweep_at, mut is_known) = (Instant::now(), false);
        loop {
            let renewed = self.renew().await;
            if let Err(err) = &renewed {
                let error = stdx::error_chain(err);
                tracing::warn!(error, "the identity lease was not renewed");
            }
            is_known |= renewed.is_ok();
            // Whoever finds no Lease takes what its server says for that of one that is gone.
            if is_known && let Some(published) = &mut published {
                published.settle(&self.core, &self.own.id).await;
            }
            if sweep_at <= Instant::now() {
                self.sweep().await;
                sweep_at = Instant::now() + SWEEP_EVERY;
            }
            let random = &self.core.world.random;
            let wait = if renewed.is_ok() { RENEW_EVERY } else { RETRY_AFTER };
            tokio::select! {
                biased;
                () = shutdown.cancelled() => break,
                () = tokio::time::sleep(random.jitter(wait, 0.04)) => {}
            }
        }
        // Without it, the Lease is found to be over.
        let _ = tokio::time::timeout(LEAVE_MAX, self.delete()).await;
    }

    /// Whether somebody wants to know what this server stores.
    fn publishes(&self) -> bool {
        let resource =
            GroupVersionResource::new("internal.apiserver.k8s.io", "v1alpha1", "storageversions");
        self.core.config.gates.is_enabled(STORAGE_VERSION_API)
            && self.core.registry.kinds().find(&resource).is_some()
    }

    fn stored(&self) -> Option<Arc<Lease>> {
        let lookup: &dyn Lookup = self.core.cache.as_ref();
        lookup.get::<Lease>(&ObjectKey::new(NAMESPACE, self.own.id.as_str()))
    }

    async fn renew(&self) -> Result<(), ApiError> {
        let now = self.core.world.clock.now();
        match plan(self.stored().as_deref(), &self.own, now) {
            Write::Create(lease) => own_calls::create(&self.core, *lease).await,
            Write::Update(lease) => own_calls::update(&self.core, *lease, None).await,
        }
    }

    async fn delete(&self) -> Result<(), ApiError> {
        match self.stored() {
            Some(lease) => own_calls::delete(&self.core, lease.as_ref()).await,
            None => Ok(()),
        }
    }

    async fn sweep(&self) {
        let lookup: &dyn Lookup = self.core.cache.as_ref();
        let now = self.core.world.clock.now();
        let leases = lookup.all::<Lease>(Some(NAMESPACE));
        for lease in leases.iter().filter(|it| is_over(it, now)) {
            let deleted = own_calls::delete_as_seen(&self.core, lease.as_ref()).await;
            match deleted {
                // Another server was faster, or its own came back to life.
                Err(err) if !err.is_not_found() && !err.is_conflict() => {
                    let error = stdx::error_chain(&err);
                    tracing::warn!(error, "the lease of a server that is gone stays");
                }
                _ => {}
            }
        }
    }
}

/// What is in the cache.
fn version_of(core: &Core, name: &str) -> Option<Arc<StorageVersion>> {
    let lookup: &dyn Lookup = core.cache.as_ref();
    lookup.get::<StorageVersion>(&ObjectKey::cluster(name))
}
