//! Deletes what lost its last owner, and carries out foreground and orphan deletion.
//!
//! A graph of every object's owners follows metadata informers over all deletable resources (`resources`). The graph
//! only suggests: the server is asked before anything is deleted, and every write carries the uid that was looked at.
//! An update of a status costs O(1); an object whose owners are known to exist costs no request.

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
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use reconcile::{Next, Reconciler, WorkQueue};
use serde_json::json;

use self::graph::{Graph, Node};
use self::plan::{Action, Owner};
use crate::handlers::on_metadata;
use crate::resources::{Followed, Listener, Resources};
use crate::{Descriptor, Startup};

pub(crate) const DESCRIPTOR: Descriptor = Descriptor {
    name: "garbage-collector-controller",
    identity: "generic-garbage-collector",
    start,
};

#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error("owner {kind} {name} has a kind that is not served")]
    UnknownKind { kind: String, name: String },
    #[error("read {resource} {key}")]
    Read {
        resource: String,
        key: ObjectKey,
        #[source]
        source: ApiError,
    },
    #[error("write {resource} {key}")]
    Write {
        resource: String,
        key: ObjectKey,
        #[source]
        source: ApiError,
    },
}

/// Objects are keys here by their uid: two objects of one name are two keys.
struct GarbageCollector {
    client: Client,
    resources: Arc<Resources>,
    shared: Arc<Shared>,
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

fn start(context: &Startup, descriptor: &Descriptor) {
    let client = context.client(descriptor);
    let queue = WorkQueue::new(descriptor.name);
    queue.measure(&context.metrics);
    let (shared, resources) = (Arc::new(Shared::default()), context.resources.clone());
    resources.listen(Arc::new(Follower { shared: shared.clone(), queue: queue.clone() }));
    let collector = GarbageCollector { client, resources, shared };
    let workers = context.config.concurrent_gc_syncs;
    reconcile::run(&context.tasks.child(descriptor.name), queue, workers, Arc::new(collector));
}

/// Keeps the graph.
struct Follower {
    shared: Arc<Shared>,
    queue: WorkQueue,
}

impl Listener for Follower {
    fn followed(&self, resource: &Discovered, informer: &Arc<MetadataInformer>) {
        let (shared, queue) = (self.shared.clone(), self.queue.clone());
        let resource = resource.resource.clone();
        on_metadata(informer, move |before, after| {
            if let (Some(before), Some(after)) = (before, after)
                && is_same(before, after)
            {
                return;
            }
            let mut graph = lock(&shared.graph);
            let mut wake = BTreeSet::new();
            if let Some(before) = before.filter(|it| after.is_none_or(|a| a.uid != it.uid)) {
                wake.extend(graph.remove(&before.uid));
            }
            if let Some(after) = after {
                wake.extend(graph.upsert(Node::new(&resource, after)));
            }
            drop(graph);
            wake.into_iter().for_each(|it| queue.add(ObjectKey::cluster(it)));
        });
    }

    fn forgotten(&self, resource: &GroupVersionResource) {
        let wake = lock(&self.shared.graph).remove_resource(resource);
        wake.into_iter().for_each(|it| self.queue.add(ObjectKey::cluster(it)));
    }

    fn settled(&self) {
        let waiting = std::mem::take(&mut *lock(&self.shared.waiting));
        waiting.into_iter().for_each(|it| self.queue.add(ObjectKey::cluster(it)));
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
    type Error = Error;

    async fn reconcile(&self, key: &ObjectKey) -> Result<Next, Error> {
        let Some(node) = lock(&self.shared.graph).get(&key.name).cloned() else {
            return Ok(Next::Settled);
        };
        // Dependents may be of any kind: nothing is let go before all of them are known.
        let is_waiting = node.is_foreground || node.is_orphaning;
        if is_waiting && self.waits(&node.uid, || self.resources.is_settled()) {
            return Ok(Next::Settled);
        }
        if is_waiting {
            for action in self.plan_owner(&node) {
                self.apply(&node, action).await?;
            }
        }
        if !node.is_deleting && !self.waits(&node.uid, || self.are_owners_settled(&node)) {
            self.judge(&node).await?;
        }
        Ok(Next::Settled)
    }
}

impl GarbageCollector {
    /// Puts the object off until the next cache is complete, unless `is_settled`. In this order, so that a cache that
    /// becomes complete in between is not missed.
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

    /// Whether a missing owner would be in the graph if it existed. Without this every object would be looked up at the
    /// server while caches fill.
    fn are_owners_settled(&self, node: &Node) -> bool {
        node.owners.iter().filter(|it| !self.is_known_solid(node, it)).all(|it| {
            match self.followed(it) {
                Some(followed) => followed.is_settled,
                None => self.resources.is_settled(),
            }
        })
    }

    fn followed(&self, reference: &OwnerReference) -> Option<Followed> {
        let group = GroupVersion::parse(&reference.api_version)?.group;
        self.resources.of_kind(&group, &reference.kind)
    }

    fn plan_owner(&self, node: &Node) -> Vec<Action> {
        let graph = lock(&self.shared.graph);
        let dependents = graph.dependents(&node.uid);
        if node.is_orphaning {
            return plan::plan_orphaning(&dependents);
        }
        plan::plan_foreground(&node.uid, &dependents).into_iter().collect()
    }

    /// Looks at the owners of an object. When all are known to exist, the server is not asked.
    async fn judge(&self, node: &Node) -> Result<(), Error> {
        if node.owners.iter().all(|it| self.is_known_solid(node, it)) {
            return Ok(());
        }
        let Some(live) = self.read(&node.resource, &node.key).await? else {
            return Ok(());
        };
        if live.meta.uid != node.uid {
            return Ok(());
        }
        let mut owners = Vec::new();
        for reference in &live.meta.owner_references {
            owners.push((reference.clone(), self.state_of(node, reference).await?));
        }
        let has_dependents = !lock(&self.shared.graph).dependents(&node.uid).is_empty();
        let action = plan::plan_dependent(&owners, &live.meta.finalizers, has_dependents);
        match action {
            None => Ok(()),
            Some(Action::DropOwners(uids)) => self.drop_owners(node, &live, &uids).await,
            Some(Action::Delete(propagation)) => self.delete(node, &live, propagation).await,
            Some(action) => self.apply(node, action).await,
        }
    }

    fn is_known_solid(&self, node: &Node, reference: &OwnerReference) -> bool {
        let graph = lock(&self.shared.graph);
        graph.get(&reference.uid).is_some_and(|it| is_in_reach(node, it) && !it.is_foreground)
    }

    async fn state_of(&self, node: &Node, reference: &OwnerReference) -> Result<Owner, Error> {
        let known = lock(&self.shared.graph).get(&reference.uid).cloned();
        if let Some(owner) = known.filter(|it| is_in_reach(node, it)) {
            return Ok(if owner.is_foreground { Owner::WaitsForDependents } else { Owner::Solid });
        }
        let (resource, scope) = self.resource_of(reference)?;
        let namespace = match scope {
            Scope::Cluster => "",
            Scope::Namespaced => &node.key.namespace,
        };
        // A cluster-scoped object cannot have a namespaced owner: a mistake that cannot be looked up, so
        // nothing is deleted because of it.
        if scope == Scope::Namespaced && namespace.is_empty() {
            return Ok(Owner::Solid);
        }
        let key = ObjectKey::new(namespace, reference.name.clone());
        match self.read(&resource, &key).await? {
            Some(live) if live.meta.uid == reference.uid => {
                let is_foreground = Node::new(&resource, &live.meta).is_foreground;
                Ok(if is_foreground { Owner::WaitsForDependents } else { Owner::Solid })
            }
            _ => Ok(Owner::Absent),
        }
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
        match api.get(&key.namespace, &key.name).await {
            Ok(live) => Ok(Some(live)),
            Err(err) if err.is_not_found() => Ok(None),
            Err(source) => {
                let resource = resource.group_resource().to_string();
                Err(Error::Read { resource, key: key.clone(), source })
            }
        }
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
                        self.drop_from(&resource, &live, std::slice::from_ref(&node.uid)).await
                    }
                }
            }
            Action::DropOwners(_) | Action::Delete(_) => Ok(()),
        }
    }

    async fn drop_owners(&self, node: &Node, live: &Stored, uids: &[String]) -> Result<(), Error> {
        self.drop_from(&node.resource, live, uids).await
    }

    async fn drop_from(
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
        match patched {
            Ok(_) => Ok(()),
            Err(err) if err.is_not_found() => Ok(()),
            Err(source) => {
                let resource = resource.group_resource().to_string();
                Err(Error::Write { resource, key: key.clone(), source })
            }
        }
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
        match api.delete(&node.key.namespace, &node.key.name, options).await {
            Ok(()) => Ok(()),
            Err(err) if err.is_not_found() => Ok(()),
            Err(source) => {
                let resource = node.resource.group_resource().to_string();
                Err(Error::Write { resource, key: node.key.clone(), source })
            }
        }
    }
}

/// Owners live in the same namespace, or in none.
fn is_in_reach(dependent: &Node, owner: &Node) -> bool {
    owner.key.namespace.is_empty() || owner.key.namespace == dependent.key.namespace
}
