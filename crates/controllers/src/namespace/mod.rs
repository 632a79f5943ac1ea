//! Empties namespaces that are being deleted (pods first, then the rest, by discovery) and lets
//! them go.
//!
//! What remains is waited for by events: the deletion of the last object of a resource in a
//! namespace wakes it, so that a namespace costs one look per resource and not per object.

mod garbage;
mod plan;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use api::Meta;
use api::core::namespace::Namespace;
use api::object::key_of;
use apimachinery::{ApiError, ObjectKey, Scope};
use client::{Api, Client, DeleteOptions, Discovered, ListOptions, Propagation};
use informer::{Indexer, MetadataInformer};
use reconcile::{
    Change, Failed, Next, Outcome as _, OwnWrites, PATIENCE, Reconciler, WorkQueue, itself,
    on_change,
};
use stdx::SharedClock;

pub(crate) use self::garbage::plan_any;
use self::plan::{Found, Verdict};
use crate::flags::{at_least_one, duration};
use crate::resources::Listener;
use crate::{Descriptor, Flags, Startup, owners};

pub(crate) const DESCRIPTOR: Descriptor = Descriptor {
    name: "namespace-controller",
    aliases: &["namespace"],
    identity: "namespace-controller",
    is_on_by_default: true,
    flags: Flags::of::<Settings>(),
    start,
};

#[derive(clap::Args)]
#[group(skip)]
struct Settings {
    /// Namespaces that are emptied at once
    #[arg(long, value_name = "N", default_value = "10", value_parser = at_least_one)]
    concurrent_namespace_syncs: usize,
    /// Accepted, and does nothing: namespaces are looked at when something happens to them
    #[arg(long, value_name = "DURATION", default_value = "5m0s", value_parser = duration)]
    namespace_sync_period: Duration,
}

/// How long to leave what remains alone when no event comes: for resources that cannot be watched,
/// and to say in the conditions how many objects are left.
const LOOK_AGAIN: Duration = Duration::from_secs(30);

#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error(transparent)]
    Call(#[from] Failed),
    #[error("namespace {namespace} still has content that cannot be deleted: {failures}")]
    Content { namespace: String, failures: String },
}

struct Namespaces {
    namespaces: Indexer<Namespace>,
    own_writes: Arc<OwnWrites<Namespace>>,
    client: Client,
    api: Api<Namespace>,
    clock: SharedClock,
}

fn start(startup: &Startup<'_>) {
    let mut controller = startup.controller();
    let namespaces: Indexer<Namespace> = controller.cache();
    let reconciler = Namespaces {
        namespaces: namespaces.clone(),
        own_writes: controller.own_writes(PATIENCE),
        api: startup.client.api(),
        client: startup.client.clone(),
        clock: startup.world.clock.clone(),
    };
    startup.resources.listen(Arc::new(Waker { namespaces, queue: controller.queue() }));
    controller
        .watches(|it: &Namespace| itself(it).filter(|_| owners::is_deleting(&it.metadata)))
        .workers(startup.settings::<Settings>().concurrent_namespace_syncs)
        .run(reconciler);
}

/// Wakes a namespace when it has lost its last object of a resource.
struct Waker {
    namespaces: Indexer<Namespace>,
    queue: WorkQueue,
}

impl Listener for Waker {
    fn followed(&self, resource: &Discovered, informer: &Arc<MetadataInformer>) {
        if resource.scope == Scope::Cluster {
            return;
        }
        let (namespaces, queue) = (self.namespaces.clone(), self.queue.clone());
        // The informer owns its handlers, so a handler must not own the informer.
        let cache = Arc::downgrade(informer);
        informer.add_event_handler(on_change(move |change: Change<'_, Meta>| {
            let Change::Deleted(deleted) = change else { return };
            let key = ObjectKey::cluster(deleted.key.namespace.clone());
            let has_more = || cache.upgrade().is_some_and(|it| it.has_namespace(&key.name));
            let is_ending =
                namespaces.get(&key).is_some_and(|it| owners::is_deleting(&it.metadata));
            if is_ending && !has_more() {
                queue.add(key);
            }
        }));
    }
}

impl Reconciler for Namespaces {
    type Key = ObjectKey;
    type Error = Error;

    async fn reconcile(&self, key: &ObjectKey) -> Result<Next, Error> {
        if let Some(wait) = self.own_writes.wait(key) {
            return Ok(Next::After(wait));
        }
        let Some(cached) = self.namespaces.get(key) else {
            return Ok(Next::Settled);
        };
        if !plan::is_ending(&cached) {
            return Ok(Next::Settled);
        }
        let found = self.empty(&key.name).await;
        let namespace = self.set_conditions(&cached, &found).await?;
        match (found.verdict(), namespace) {
            (Verdict::LetGo, None) => Ok(Next::Settled),
            (Verdict::LetGo, Some(namespace)) => {
                self.finalize(&cached, &namespace).await?;
                Ok(Next::Settled)
            }
            (Verdict::Wait, _) => Ok(Next::After(LOOK_AGAIN)),
            (Verdict::Retry(failures), _) => {
                Err(Error::Content { namespace: key.name.clone(), failures })
            }
        }
    }
}

impl Namespaces {
    async fn empty(&self, namespace: &str) -> Found {
        let mut found = Found::default();
        let served = match self.client.discover().await {
            Ok(served) => served,
            Err(err) => {
                found.discovery_failure = Some(err.to_string());
                return found;
            }
        };
        for step in plan::steps(served) {
            for resource in &step {
                self.empty_of(namespace, resource, &mut found).await;
            }
            if !found.is_empty() {
                break;
            }
        }
        found
    }

    async fn empty_of(&self, namespace: &str, resource: &Discovered, found: &mut Found) {
        if let Err(err) = self.try_empty(namespace, resource, found).await
            && !err.is_not_found()
        {
            let name = resource.resource.group_resource();
            found.content_failures.push(format!("{name}: {err}"));
        }
    }

    async fn try_empty(
        &self,
        namespace: &str,
        resource: &Discovered,
        found: &mut Found,
    ) -> Result<(), ApiError> {
        let api = self.client.dynamic(resource.resource.clone());
        let before = api.list(namespace, ListOptions::default()).await?;
        if before.items.is_empty() {
            return Ok(());
        }
        let options = DeleteOptions {
            propagation: Some(Propagation::Background),
            ..DeleteOptions::default()
        };
        if resource.verbs.iter().any(|it| it == "deletecollection") {
            api.delete_collection(namespace, ListOptions::default(), options).await?;
        } else {
            for item in &before.items {
                let deleted = api.delete(namespace, &item.meta.key.name, options.clone()).await;
                deleted.or_else(|err| if err.is_not_found() { Ok(()) } else { Err(err) })?;
            }
        }
        let after = api.list(namespace, ListOptions::default()).await?;
        found.note(&resource.resource, &after.items);
        Ok(())
    }

    /// The namespace as it is after the write; absent when it is gone.
    async fn set_conditions(
        &self,
        cached: &Arc<Namespace>,
        found: &Found,
    ) -> Result<Option<Arc<Namespace>>, Error> {
        let stored =
            cached.status.as_ref().and_then(|it| it.conditions.clone()).unwrap_or_default();
        let holders = plan::other_holders(cached);
        let Some(wanted) = plan::plan(&stored, found, &holders, self.clock.now()) else {
            return Ok(Some(cached.clone()));
        };
        let mut namespace = Namespace::clone(cached);
        namespace.status.get_or_insert_default().conditions = Some(wanted);
        let key = key_of(&cached.metadata);
        let written = self.api.update_status(namespace).await.unless_gone();
        let failed = || Failed::to::<Namespace>("update the status of", &key);
        let Some(written) = written.map_err(failed())? else { return Ok(None) };
        self.own_writes.changed(&key, cached, written.meta());
        Ok(Some(written.object().map_err(failed())?))
    }

    async fn finalize(&self, cached: &Namespace, namespace: &Namespace) -> Result<(), Error> {
        let key = key_of(&namespace.metadata);
        let finalized = plan::finalized(namespace);
        let written = self.api.update_subresource(finalized, "finalize").await;
        let failed = Failed::to::<Namespace>("finalize", &key);
        if let Some(written) = written.unless_gone().map_err(failed)? {
            self.own_writes.changed(&key, cached, written.meta());
        }
        Ok(())
    }
}
