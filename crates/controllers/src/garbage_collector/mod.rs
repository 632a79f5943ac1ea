//! Deletes what lost its last owner, and carries out foreground and orphan deletion.
//!
//! A graph of every object's owners follows metadata informers over all deletable resources, found by
//! discovery and found again when CustomResourceDefinitions change. The graph only suggests: the server
//! is asked before anything is deleted, and every write carries the uid that was looked at.

mod graph;
mod plan;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use api::apiextensions::custom_resource_definition::CustomResourceDefinition;
use api::{Meta, Stored};
use apimachinery::{ApiError, GroupVersion, GroupVersionResource, ObjectKey, Scope};
use client::{
    Client, DeleteOptions, Discovered, PatchKind, Preconditions, Propagation, WriteOptions,
};
use informer::{Factory, MetadataInformer};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use reconcile::{Next, Reconciler, WorkQueue};
use serde_json::json;

use self::graph::{Graph, Node};
use self::plan::{Action, Owner};
use crate::handlers::{on_change, on_metadata};
use crate::{Context, Descriptor};

pub(crate) const DESCRIPTOR: Descriptor = Descriptor {
    name: "garbage-collector-controller",
    identity: "generic-garbage-collector",
    start,
};

/// Caches that are still filling: the graph may lack dependents, so nothing is let go yet.
const NOT_SYNCED: Duration = Duration::from_millis(200);

#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error("discover resources")]
    Discover(#[source] ApiError),
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
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    graph: Mutex<Graph>,
    /// Every resource that is followed, with its informer.
    followed: Mutex<BTreeMap<GroupVersionResource, Followed>>,
}

#[derive(Clone)]
struct Followed {
    discovered: Discovered,
    informer: Arc<MetadataInformer>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn start(context: &Context, descriptor: &Descriptor) {
    let client = context.client(descriptor);
    let queue = WorkQueue::new(descriptor.name);
    let shared = Arc::new(Shared::default());
    let discovery_queue = WorkQueue::new("garbage-collector-discovery");
    let discovery = Discovery {
        client: client.clone(),
        factory: context.factory.clone(),
        shared: shared.clone(),
        objects: queue.clone(),
    };
    let to_queue = discovery_queue.clone();
    let definitions = context.factory.informer::<CustomResourceDefinition>();
    on_change(&definitions, move |_| to_queue.add(ObjectKey::cluster("resources")));
    discovery_queue.add(ObjectKey::cluster("resources"));
    let tasks = context.tasks.child(descriptor.name);
    reconcile::run(&tasks.child("discovery"), discovery_queue, 1, Arc::new(discovery));
    let workers = context.config.concurrent_gc_syncs;
    reconcile::run(&tasks, queue, workers, Arc::new(GarbageCollector { client, shared }));
}

/// Keeps the set of followed resources equal to what the server serves.
struct Discovery {
    client: Client,
    factory: Arc<Factory>,
    shared: Arc<Shared>,
    objects: WorkQueue,
}

/// Events own nothing and are many.
fn is_followed(resource: &Discovered) -> bool {
    let can = |verb: &str| resource.verbs.iter().any(|it| it == verb);
    resource.resource.resource != "events" && can("delete") && can("list") && can("watch")
}

impl Reconciler for Discovery {
    type Error = Error;

    async fn reconcile(&self, _key: &ObjectKey) -> Result<Next, Error> {
        let served = self.client.discover().await.map_err(Error::Discover)?;
        let served: BTreeMap<GroupVersionResource, Discovered> =
            served.into_iter().filter(is_followed).map(|it| (it.resource.clone(), it)).collect();
        let known: Vec<GroupVersionResource> =
            lock(&self.shared.followed).keys().cloned().collect();
        for resource in known.iter().filter(|it| !served.contains_key(it)) {
            self.factory.forget_metadata(resource);
            lock(&self.shared.followed).remove(resource);
            let wake = lock(&self.shared.graph).remove_resource(resource);
            wake.into_iter().for_each(|it| self.objects.add(ObjectKey::cluster(it)));
        }
        for (resource, discovered) in served {
            if !known.contains(&resource) {
                self.follow(resource, discovered);
            }
        }
        Ok(Next::Settled)
    }
}

impl Discovery {
    fn follow(&self, resource: GroupVersionResource, discovered: Discovered) {
        let informer = self.factory.metadata(&resource);
        let followed = Followed { discovered, informer: informer.clone() };
        lock(&self.shared.followed).insert(resource.clone(), followed);
        let (shared, queue) = (self.shared.clone(), self.objects.clone());
        on_metadata(&informer, move |before: Option<&Arc<Meta>>, after| {
            let mut graph = lock(&shared.graph);
            let mut wake = std::collections::BTreeSet::new();
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
}

impl Reconciler for GarbageCollector {
    type Error = Error;

    async fn reconcile(&self, key: &ObjectKey) -> Result<Next, Error> {
        let Some(node) = lock(&self.shared.graph).get(&key.name).cloned() else {
            return Ok(Next::Settled);
        };
        if node.is_foreground || node.is_orphaning {
            if !self.has_synced() {
                return Ok(Next::After(NOT_SYNCED));
            }
            for action in self.plan_owner(&node) {
                self.apply(&node, action).await?;
            }
        }
        if !node.is_deleting {
            self.judge(&node).await?;
        }
        Ok(Next::Settled)
    }
}

impl GarbageCollector {
    fn has_synced(&self) -> bool {
        lock(&self.shared.followed).values().all(|it| it.informer.has_synced())
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

    /// The resource of an owner's kind; another version of the same group is as good.
    fn resource_of(
        &self,
        reference: &OwnerReference,
    ) -> Result<(GroupVersionResource, Scope), Error> {
        let group = GroupVersion::parse(&reference.api_version).map(|it| it.group);
        let followed = lock(&self.shared.followed);
        followed
            .values()
            .map(|it| &it.discovered)
            .find(|it| it.kind == reference.kind && Some(&it.resource.group) == group.as_ref())
            .map(|it| (it.resource.clone(), it.scope))
            .ok_or_else(|| Error::UnknownKind {
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
                    Some(live) => self.drop_from(&resource, &live, &[node.uid.clone()]).await,
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
