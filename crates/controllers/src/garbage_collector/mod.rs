//! Deletes what lost its last owner, and carries out foreground and orphan deletion.
//!
//! A graph of every object's owners follows metadata informers over all deletable resources. The
//! graph only suggests: the server is asked first, and every write carries the uid and version that
//! it said, so that a graph that is behind our own writes changes nothing. A status costs O(1); an
//! object whose owners are known to exist costs no request.

mod absent;
mod garbage;
mod graph;
mod plan;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use api::{Meta, Stored};
use apimachinery::{ApiError, GroupVersion, GroupVersionResource, ObjectKey, Scope};
use client::{
    Client, DeleteOptions, Discovered, PatchKind, Preconditions, Propagation, WriteOptions,
};
use informer::MetadataInformer;
use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use reconcile::{
    Change, EventRecorder, EventType, Failed, Next, Outcome as _, Reconciler, WorkQueue, on_change,
};
use serde_json::json;

use self::absent::{Absent, Named};
pub(crate) use self::garbage::plan_any;
use self::graph::{Graph, Node};
use self::plan::{Action, Dependents, Fate, Owner};
use crate::flags::{at_least_one, boolean};
use crate::resources::{Followed, Listener, Resources};
use crate::{Descriptor, Flags, Startup};

pub(crate) const DESCRIPTOR: Descriptor = Descriptor {
    name: "garbage-collector-controller",
    aliases: &["garbagecollector"],
    identity: "generic-garbage-collector",
    is_on_by_default: true,
    flags: Flags::of::<Settings>(),
    start,
};

#[derive(clap::Args)]
#[group(skip)]
struct Settings {
    /// Objects whose owners are looked at at once
    #[arg(long, value_name = "N", default_value = "20", value_parser = at_least_one)]
    concurrent_gc_syncs: usize,
    /// Collect garbage; without, what lost its owner stays, and so does what is deleted with orphans
    /// or in the foreground
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true)]
    #[arg(default_value = "true", default_missing_value = "true", value_parser = boolean)]
    #[arg(action = clap::ArgAction::Set)]
    enable_garbage_collector: bool,
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error("owner {kind} {name} has a kind that is not served")]
    UnknownKind { kind: String, name: String },
    #[error(transparent)]
    Call(#[from] Failed),
}

/// The key of an object is its uid: two objects of one name are two keys.
type Uid = String;

struct GarbageCollector {
    client: Client,
    resources: Arc<Resources>,
    shared: Arc<Shared>,
    absent: Mutex<Absent>,
    events: EventRecorder,
}

#[derive(Default)]
struct Shared {
    graph: Mutex<Graph>,
    /// Uids whose turn comes when more caches are complete.
    waiting: Mutex<BTreeSet<String>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn start(startup: &Startup<'_>) {
    let settings: &Settings = startup.settings();
    if !settings.enable_garbage_collector {
        tracing::warn!(
            controller = DESCRIPTOR.name,
            "not started: --enable-garbage-collector=false"
        );
        return;
    }
    let controller = startup.controller::<Uid>();
    let (shared, resources) = (Arc::new(Shared::default()), startup.resources.clone());
    resources.listen(Arc::new(Follower { shared: shared.clone(), queue: controller.queue() }));
    let (client, events) = (startup.client.clone(), startup.events());
    let collector =
        GarbageCollector { client, resources, shared, absent: Mutex::default(), events };
    controller.workers(settings.concurrent_gc_syncs).run(collector);
}

/// Keeps the graph.
struct Follower {
    shared: Arc<Shared>,
    queue: WorkQueue<Uid>,
}

impl Listener for Follower {
    fn followed(&self, resource: &Discovered, informer: &Arc<MetadataInformer>) {
        let (shared, queue) = (self.shared.clone(), self.queue.clone());
        let resource = resource.resource.clone();
        informer.add_event_handler(on_change(move |change: Change<'_, Meta>| {
            if let Change::Updated { before, after } = change
                && is_same(before, after)
            {
                return;
            }
            let (before, after) = (change.before(), change.after());
            let mut graph = lock(&shared.graph);
            let mut wake = BTreeSet::new();
            if let Some(before) = before.filter(|it| after.is_none_or(|a| a.uid != it.uid)) {
                wake.extend(graph.remove(&before.uid));
            }
            if let Some(after) = after {
                wake.extend(graph.upsert(Node::new(&resource, after)));
            }
            drop(graph);
            wake.into_iter().for_each(|it| queue.add(it));
        }));
    }

    fn forgotten(&self, resource: &GroupVersionResource) {
        let wake = lock(&self.shared.graph).remove_resource(resource);
        wake.into_iter().for_each(|it| self.queue.add(it));
    }

    fn settled(&self) {
        let waiting = std::mem::take(&mut *lock(&self.shared.waiting));
        waiting.into_iter().for_each(|it| self.queue.add(it));
    }
}

/// Nothing that the graph knows differs: most updates, since they are of a status.
fn is_same(before: &Meta, after: &Meta) -> bool {
    before.uid == after.uid
        && before.is_deleting == after.is_deleting
        && before.finalizers == after.finalizers
        && before.owner_references == after.owner_references
}

impl Reconciler for GarbageCollector {
    type Key = Uid;
    type Error = Error;

    async fn reconcile(&self, uid: &Uid) -> Result<Next, Error> {
        let Some(node) = lock(&self.shared.graph).get(uid).cloned() else {
            return Ok(Next::Settled);
        };
        // Dependents may be of any kind: nothing is let go before all of them are known.
        let is_waiting = node.is_foreground || node.is_orphaning;
        if is_waiting && self.waits(&node.uid, || self.resources.is_settled()) {
            return Ok(Next::Settled);
        }
        let actions = plan::plan_owner(&lock(&self.shared.graph), &node);
        for action in actions {
            self.apply(&node, action).await?;
        }
        if !node.is_deleting && !self.waits(&node.uid, || self.are_owners_settled(&node)) {
            self.judge(&node).await?;
        }
        Ok(Next::Settled)
    }
}

impl GarbageCollector {
    /// Puts the object off until the next cache is complete, unless `is_settled`. In this order, so
    /// that a cache that becomes complete in between is not missed.
    fn waits(&self, uid: &str, is_settled: impl Fn() -> bool) -> bool {
        if is_settled() {
            return false;
        }
        lock(&self.shared.waiting).insert(uid.to_owned());
        if is_settled() {
            lock(&self.shared.waiting).remove(uid);
            return false;
        }
        true
    }

    /// Whether a missing owner would be in the graph if it existed. Without this every object would
    /// be looked up at the server while caches fill.
    fn are_owners_settled(&self, node: &Node) -> bool {
        let doubtful = plan::doubtful(&lock(&self.shared.graph), node);
        doubtful.into_iter().all(|it| match self.followed(it) {
            Some(followed) => followed.is_settled,
            None => self.resources.is_settled(),
        })
    }

    fn followed(&self, reference: &OwnerReference) -> Option<Followed> {
        let group = GroupVersion::parse(&reference.api_version)?.group;
        self.resources.of_kind(&group, &reference.kind)
    }

    /// Looks at the owners of an object. When all are known to exist, the server is not asked.
    async fn judge(&self, node: &Node) -> Result<(), Error> {
        if plan::doubtful(&lock(&self.shared.graph), node).is_empty() {
            return Ok(());
        }
        let live = self.read(&node.resource, &node.key).await?;
        let Some(live) = live.filter(|it| it.meta.uid == node.uid) else {
            return Ok(());
        };
        for reference in plan::out_of_reach(&lock(&self.shared.graph), node) {
            self.complain(node, reference);
        }
        let mut owners = Vec::new();
        for reference in &live.meta.owner_references {
            owners.push((reference.clone(), self.state_of(node, reference).await?));
        }
        let dependents = Dependents::of(&lock(&self.shared.graph), &node.uid);
        match plan::plan_dependent(&owners, &live.meta.finalizers, dependents) {
            None => Ok(()),
            Some(Fate::Unblock) => {
                self.unblock(&node.resource, &live).await?;
                // Nothing is left to unblock then.
                Box::pin(self.judge(node)).await
            }
            Some(Fate::DropOwners(uids)) => self.drop_owners(&node.resource, &live, &uids).await,
            Some(Fate::Delete(propagation)) => self.delete(node, &live, propagation).await,
        }
    }

    async fn state_of(&self, node: &Node, reference: &OwnerReference) -> Result<Owner, Error> {
        if let Some(known) = plan::known(&lock(&self.shared.graph), node, reference) {
            return Ok(known);
        }
        let (resource, scope) = self.resource_of(reference)?;
        let Some(namespace) = plan::namespace_of_owner(scope, &node.key) else {
            self.complain(node, reference);
            return Ok(Owner::Solid);
        };
        let named = Named::new(namespace, reference);
        if lock(&self.absent).has(&named) {
            return Ok(Owner::Absent);
        }
        let live = self.read(&resource, &ObjectKey::new(namespace, reference.name.clone())).await?;
        let owner = plan::found(&resource, reference, live.as_deref().map(|it| &*it.meta));
        if owner == Owner::Absent {
            lock(&self.absent).add(named);
        }
        Ok(owner)
    }

    /// Says of an object that it names an owner where it cannot be.
    fn complain(&self, node: &Node, reference: &OwnerReference) {
        let Some(kind) = self.resources.kind_of(&node.resource) else { return };
        let some = |it: &str| Some(it.to_owned()).filter(|it| !it.is_empty());
        let version = GroupVersion::new(&node.resource.group, &node.resource.version);
        let about = ObjectReference {
            api_version: Some(version.to_string()),
            kind: Some(kind),
            namespace: some(&node.key.namespace),
            name: some(&node.key.name),
            uid: some(&node.uid),
            ..ObjectReference::default()
        };
        let text = plan::invalid_namespace_text(&node.key, reference);
        self.events.event_about(about, EventType::Warning, "OwnerRefInvalidNamespace", text);
    }

    fn resource_of(
        &self,
        reference: &OwnerReference,
    ) -> Result<(GroupVersionResource, Scope), Error> {
        let followed = self.followed(reference).map(|it| it.discovered);
        followed.map(|it| (it.resource, it.scope)).ok_or_else(|| Error::UnknownKind {
            kind: reference.kind.clone(),
            name: reference.name.clone(),
        })
    }

    async fn read(
        &self,
        resource: &GroupVersionResource,
        key: &ObjectKey,
    ) -> Result<Option<Arc<Stored>>, Error> {
        let api = self.client.dynamic(resource.clone());
        let found = api.get(&key.namespace, &key.name).await.unless_gone();
        Ok(found.map_err(failed("read", resource, key))?)
    }

    async fn apply(&self, node: &Node, action: Action) -> Result<(), Error> {
        match action {
            Action::RemoveFinalizer(finalizer) => {
                let live = self.read(&node.resource, &node.key).await?;
                let Some(live) = live.filter(|it| it.meta.uid == node.uid) else {
                    return Ok(());
                };
                let rest: Vec<&String> =
                    live.meta.finalizers.iter().filter(|it| *it != finalizer).collect();
                if rest.len() == live.meta.finalizers.len() {
                    return Ok(());
                }
                self.patch(&node.resource, &live, json!({"finalizers": rest})).await
            }
            Action::Orphan { resource, dependent, uid } => {
                let live = self.read(&resource, &dependent).await?;
                match live.filter(|it| it.meta.uid == uid) {
                    None => Ok(()),
                    Some(live) => {
                        self.drop_owners(&resource, &live, std::slice::from_ref(&node.uid)).await
                    }
                }
            }
        }
    }

    async fn drop_owners(
        &self,
        resource: &GroupVersionResource,
        live: &Stored,
        uids: &[String],
    ) -> Result<(), Error> {
        let owners = &live.meta.owner_references;
        let rest: Vec<&OwnerReference> =
            owners.iter().filter(|it| !uids.contains(&it.uid)).collect();
        if rest.len() == owners.len() {
            return Ok(());
        }
        self.patch(resource, live, json!({"ownerReferences": rest})).await
    }

    async fn unblock(&self, resource: &GroupVersionResource, live: &Stored) -> Result<(), Error> {
        let owners = live.meta.owner_references.iter().cloned();
        let owners: Vec<OwnerReference> =
            owners.map(|it| OwnerReference { block_owner_deletion: Some(false), ..it }).collect();
        self.patch(resource, live, json!({"ownerReferences": owners})).await
    }

    /// A merge patch of metadata, which custom resources take too; valid only for what was read.
    async fn patch(
        &self,
        resource: &GroupVersionResource,
        live: &Stored,
        mut metadata: serde_json::Value,
    ) -> Result<(), Error> {
        let key = &live.meta.key;
        metadata["uid"] = json!(live.meta.uid);
        metadata["resourceVersion"] = json!(live.meta.resource_version.to_string());
        let body = json!({"metadata": metadata}).to_string().into();
        let api = self.client.dynamic(resource.clone());
        let options = WriteOptions::default();
        let patched = api.patch(&key.namespace, &key.name, PatchKind::Merge, body, options).await;
        patched.unless_gone().map_err(failed("write", resource, key))?;
        Ok(())
    }

    async fn delete(
        &self,
        node: &Node,
        live: &Stored,
        propagation: Propagation,
    ) -> Result<(), Error> {
        let options = DeleteOptions {
            propagation: Some(propagation),
            preconditions: Preconditions {
                uid: Some(node.uid.clone()),
                resource_version: Some(live.meta.resource_version.to_string()),
            },
            ..DeleteOptions::default()
        };
        let api = self.client.dynamic(node.resource.clone());
        let deleted = api.delete(&node.key.namespace, &node.key.name, options).await;
        deleted.unless_gone().map_err(failed("delete", &node.resource, &node.key))?;
        Ok(())
    }
}

fn failed(
    action: &'static str,
    resource: &GroupVersionResource,
    key: &ObjectKey,
) -> impl FnOnce(ApiError) -> Failed + use<> {
    Failed::to_any(action, resource.group_resource().to_string(), key)
}
