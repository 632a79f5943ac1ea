//! Every deletable resource that is served, each followed by one metadata informer, for all
//! controllers that care about objects of any kind. Found by discovery, and again when
//! CustomResourceDefinitions change.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use api::apiextensions::custom_resource_definition::CustomResourceDefinition;
use api::{Stored, View};
use apimachinery::{ApiError, GroupResource, GroupVersionResource};
use client::{Client, Discovered};
use informer::{Factory, MetadataInformer};
use lifecycle::Tasks;
use reconcile::{Controller, Next, Reconciler, WorkQueue};
use telemetry::{Counter, Description, Stability};

use crate::Context;

/// Discovery is part of the garbage collector upstream and needs no more rights than it has.
pub(crate) const IDENTITY: &str = "generic-garbage-collector";
/// A resource that cannot be listed for this long (a conversion webhook that is down) holds up
/// nobody any more.
const PATIENCE: Duration = Duration::from_secs(30);

/// Hears which resources are followed. Called from the discovery task, never under a lock.
pub(crate) trait Listener: Send + Sync {
    /// Add handlers to the informer here.
    fn followed(&self, resource: &Discovered, informer: &Arc<MetadataInformer>);
    fn forgotten(&self, _resource: &GroupVersionResource) {}
    /// One more resource has its first list, or was given up waiting for.
    fn settled(&self) {}
}

#[derive(Debug, thiserror::Error)]
#[error("discover resources")]
pub(crate) struct Error(#[source] ApiError);

#[derive(Default)]
pub(crate) struct Resources {
    followed: Mutex<BTreeMap<GroupVersionResource, Followed>>,
    /// Complete before the first resource is followed.
    listeners: Mutex<Vec<Arc<dyn Listener>>>,
}

#[derive(Clone)]
pub(crate) struct Followed {
    pub discovered: Discovered,
    /// Whether the cache is to be relied on: its first list is there, or not to be expected soon.
    pub is_settled: bool,
    informer: Arc<MetadataInformer>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Resources {
    /// Only while controllers start.
    pub(crate) fn listen(&self, listener: Arc<dyn Listener>) {
        lock(&self.listeners).push(listener);
    }

    pub(crate) fn is_settled(&self) -> bool {
        let followed = lock(&self.followed);
        !followed.is_empty() && followed.values().all(|it| it.is_settled)
    }

    /// The resource of a kind; any version of the group is as good.
    pub(crate) fn of_kind(&self, group: &str, kind: &str) -> Option<Followed> {
        let followed = lock(&self.followed);
        let mut all = followed.values();
        all.find(|it| it.discovered.kind == kind && it.discovered.resource.group == group).cloned()
    }

    pub(crate) fn kind_of(&self, resource: &GroupVersionResource) -> Option<String> {
        lock(&self.followed).get(resource).map(|it| it.discovered.kind.clone())
    }

    /// A resource by its name; any version of the group is as good.
    pub(crate) fn find(&self, resource: &GroupResource) -> Option<GroupVersionResource> {
        let followed = lock(&self.followed);
        followed.keys().find(|it| it.group_resource() == *resource).cloned()
    }

    fn listeners(&self) -> Vec<Arc<dyn Listener>> {
        lock(&self.listeners).clone()
    }

    fn settle(&self, resource: &GroupVersionResource, informer: &Arc<MetadataInformer>) {
        if let Some(followed) = lock(&self.followed).get_mut(resource)
            && Arc::ptr_eq(&followed.informer, informer)
        {
            followed.is_settled = true;
        }
        self.listeners().iter().for_each(|it| it.settled());
    }
}

const SYNC_ERRORS: Description<0> = Description {
    name: "garbagecollector_controller_resources_sync_error_total",
    stability: Stability::Alpha,
    help: "Number of garbage collector resources sync errors",
    labels: [],
};

/// There is one thing to do: discover all.
const ALL: &str = "resources";

/// Starts following, with all listeners known; if there are none, nothing is followed.
pub(crate) fn start(context: &Context, resources: Arc<Resources>) {
    if resources.listeners().is_empty() {
        return;
    }
    let tasks = context.tasks.child("resources");
    let controller = Controller::new("resource-discovery", &tasks, &context.factory);
    let discovery = Discovery {
        client: (context.client_for)(IDENTITY),
        factory: context.factory.clone(),
        resources,
        tasks: tasks.clone(),
        queue: controller.queue(),
        errors: context.metrics.counter(&SYNC_ERRORS),
    };
    controller.queue().measure(&context.metrics);
    controller.queue().add(ALL);
    controller.watches(|_: &Definition| Some(ALL)).run(discovery);
}

/// That there is a definition. Nothing of it is kept, and schemas decoded are fifteen times as large
/// as written: discovery says what it amounts to.
struct Definition;

impl View for Definition {
    fn resource() -> GroupVersionResource {
        <CustomResourceDefinition as View>::resource()
    }

    fn read(_stored: &Stored) -> Result<Self, serde_json::Error> {
        Ok(Self)
    }
}

/// Keeps the set of followed resources equal to what the server serves.
struct Discovery {
    client: Client,
    factory: Arc<Factory>,
    resources: Arc<Resources>,
    tasks: Tasks,
    queue: WorkQueue<&'static str>,
    errors: Arc<Counter>,
}

/// Events own nothing, hold up nothing and are many.
fn is_followed(resource: &Discovered) -> bool {
    let can = |verb: &str| resource.verbs.iter().any(|it| it == verb);
    resource.resource.resource != "events" && can("delete") && can("list") && can("watch")
}

impl Reconciler for Discovery {
    type Key = &'static str;
    type Error = Error;

    async fn reconcile(&self, _all: &&'static str) -> Result<Next, Error> {
        let served = self.client.discover().await.map_err(|err| {
            self.errors.increment();
            Error(err)
        })?;
        let served: BTreeMap<GroupVersionResource, Discovered> =
            served.into_iter().filter(is_followed).map(|it| (it.resource.clone(), it)).collect();
        let known: Vec<GroupVersionResource> =
            lock(&self.resources.followed).keys().cloned().collect();
        for resource in known.iter().filter(|it| !served.contains_key(it)) {
            self.factory.forget_metadata(resource);
            lock(&self.resources.followed).remove(resource);
            self.resources.listeners().iter().for_each(|it| it.forgotten(resource));
        }
        // All are known before the first settles: a set that is settled is complete.
        let new: Vec<Discovered> = served.into_values().collect();
        let new = new.into_iter().filter(|it| !known.contains(&it.resource));
        let new: Vec<(Discovered, Arc<MetadataInformer>)> = new
            .map(|it| {
                // A definition may be gone before the server has ceased to name its resource:
                // whoever is told so by the server itself has it looked up again.
                let queue = self.queue.clone();
                let informer = self.factory.metadata(&it.resource, move || queue.add(ALL));
                (it, informer)
            })
            .collect();
        for (discovered, informer) in &new {
            let followed = Followed {
                discovered: discovered.clone(),
                is_settled: false,
                informer: informer.clone(),
            };
            lock(&self.resources.followed).insert(discovered.resource.clone(), followed);
        }
        for (discovered, informer) in new {
            let listeners = self.resources.listeners();
            listeners.iter().for_each(|it| it.followed(&discovered, &informer));
            self.await_sync(discovered.resource, informer);
        }
        Ok(Next::Settled)
    }
}

impl Discovery {
    fn await_sync(&self, resource: GroupVersionResource, informer: Arc<MetadataInformer>) {
        let resources = self.resources.clone();
        self.tasks.spawn("sync", move |shutdown| async move {
            tokio::select! {
                biased;
                () = shutdown.cancelled() => return,
                () = informer.wait_for_sync() => {}
                () = tokio::time::sleep(PATIENCE) => {
                    let resource = resource.group_resource();
                    tracing::warn!(%resource, "no first list yet; going on without it");
                }
            }
            resources.settle(&resource, &informer);
        });
    }
}
