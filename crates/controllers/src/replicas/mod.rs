//! What ReplicaSet and ReplicationController share: keeping a number of equal pods.
//!
//! The cache may be behind our own writes, so a reconcile creates and deletes only when it shows
//! all that earlier ones did (`OwnWrites`). A pod event that matters wakes its owner, found in
//! O(1); a reconcile reads the owner's pods and the orphans with one label of its selector, by
//! index; never all pods.

mod plan;
mod status;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use api::core::pod::{Pod, PodView};
use api::{Identified as _, Resource};
use apimachinery::selector::{self, Labels};
use apimachinery::{ApiError, ObjectKey};
use client::{Api, DeleteOptions, PatchKind, Preconditions};
use futures_util::future::join_all;
use informer::Indexer;
use k8s_openapi::api::core::v1::PodTemplateSpec;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use reconcile::{
    Change, EventRecorder, EventType, Failed, Next, Outcome as _, OwnWrites, PATIENCE, Reconciler,
    WorkQueue, is_namespace_ending, itself, owner_key,
};
use stdx::SharedClock;

use self::plan::{Observed, Plan};
use self::status::Wanted;
pub(crate) use self::status::{Failure, Status};
use crate::owners::{BY_CONTROLLER, ORPHANS};
use crate::pods::ORPHANS_BY_LABEL;
use crate::{Startup, labels, owners, pods};

/// Index: a label that the owner's selector demands.
const BY_SELECTOR: &str = "selector";

/// A kind that keeps a number of equal pods.
pub(crate) trait ReplicaOwner: Resource {
    /// Whether the status counts pods that are being deleted.
    const COUNTS_TERMINATING: bool;

    fn selector(&self) -> Result<Labels, selector::Error>;
    fn replicas(&self) -> i32;
    fn min_ready_seconds(&self) -> i32;
    fn template(&self) -> Option<&PodTemplateSpec>;
    fn status(&self) -> Status;
    fn with_status(&self, status: Status, now: jiff::Timestamp) -> Self;
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error("read the selector of {owner}")]
    Selector {
        owner: ObjectKey,
        #[source]
        source: selector::Error,
    },
    #[error(transparent)]
    Call(#[from] Failed),
}

pub(crate) struct Replicas<T: ReplicaOwner> {
    owners: Indexer<T>,
    pods: Indexer<PodView>,
    owners_api: Api<T>,
    pods_api: Api<Pod>,
    owner_writes: Arc<OwnWrites<T>>,
    pod_writes: Arc<OwnWrites<PodView>>,
    events: EventRecorder,
    clock: SharedClock,
}

pub(crate) fn start<T: ReplicaOwner>(startup: &Startup<'_>, workers: usize) {
    let mut controller = startup.controller();
    let owners: Indexer<T> = controller.indexed_cache(&[
        (BY_CONTROLLER, owners::index_by_controller),
        (BY_SELECTOR, index_by_selector),
    ]);
    let pods = controller.indexed_cache(&[
        (BY_CONTROLLER, owners::index_by_controller),
        (ORPHANS, owners::index_orphans),
        (ORPHANS_BY_LABEL, pods::index_orphans_by_label),
    ]);
    let reconciler = Replicas {
        owners: owners.clone(),
        pods,
        owners_api: startup.client.api::<T>(),
        pods_api: startup.client.api::<Pod>(),
        owner_writes: controller.own_writes(PATIENCE),
        pod_writes: controller.own_writes(PATIENCE),
        events: startup.events(),
        clock: startup.world.clock.clone(),
    };
    controller
        .watches(itself::<T>)
        .follows(move |change, queue| follow_pod(change, &owners, queue))
        .workers(workers)
        .run(reconciler);
}

/// Pod events wake the owner; a pod without an owner wakes all that may adopt it.
fn follow_pod<T: ReplicaOwner>(
    change: Change<'_, PodView>,
    owners: &Indexer<T>,
    queue: &WorkQueue,
) {
    if let Change::Updated { before, after } = change
        && !is_relevant(before, after)
    {
        return;
    }
    for pod in change.states() {
        match pod.controller() {
            Some(_) => owner_key(owners, &**pod).into_iter().for_each(|it| queue.add(it)),
            None => may_adopt(owners, pod).into_iter().for_each(|it| queue.add(it)),
        }
    }
}

/// Whether an owner's plan or counts could differ between two states of a pod.
fn is_relevant(before: &PodView, after: &PodView) -> bool {
    before.meta.uid != after.meta.uid
        || before.meta.labels != after.meta.labels
        || before.meta.owner_references != after.meta.owner_references
        || before.is_deleting() != after.is_deleting()
        || before.is_terminal() != after.is_terminal()
        || before.is_ready != after.is_ready
        || before.ready_since != after.ready_since
}

fn may_adopt<T: ReplicaOwner>(owners: &Indexer<T>, pod: &PodView) -> Vec<ObjectKey> {
    if pod.meta.labels.is_empty() {
        return Vec::new();
    }
    let mut values = pods::index_by_label(pod);
    values.push(labels::index_value(pod.namespace(), "", ""));
    values
        .iter()
        .flat_map(|it| owners.by_index(BY_SELECTOR, it))
        .filter(|it| it.selector().is_ok_and(|it| it.matches_with(|name| pod.label(name))))
        .map(|it| it.key())
        .collect()
}

fn index_by_selector<T: ReplicaOwner>(owner: &T) -> Vec<String> {
    let namespace = owners::namespace(owner.metadata());
    let selector = owner.selector().ok();
    selector.and_then(|it| labels::selector_value(namespace, &it)).into_iter().collect()
}

impl<T: ReplicaOwner> Reconciler for Replicas<T> {
    type Key = ObjectKey;
    type Error = Error;

    async fn reconcile(&self, key: &ObjectKey) -> Result<Next, Error> {
        let Some(owner) = self.owners.get(key) else {
            self.owner_writes.forget(key);
            self.pod_writes.forget(key);
            return Ok(Next::Settled);
        };
        if let Some(wait) = self.owner_writes.wait(key) {
            return Ok(Next::After(wait));
        }
        let plan = plan::plan(&self.observe(key, &owner)?);
        if !self.claim(key, &*owner, &plan).await? {
            return Ok(Next::Settled);
        }
        let (reason, done) = match self.create(key, &*owner, plan.create).await {
            Ok(()) => ("FailedDelete", self.delete(key, &*owner, &plan.delete).await),
            failed => ("FailedCreate", failed),
        };
        let failure = done
            .as_ref()
            .err()
            .map(|it| Failure { reason: reason.to_owned(), message: it.cause().to_string() });
        let next = self.update_status(key, &*owner, &plan, failure).await?;
        done?;
        Ok(self.until_shown(key, next))
    }
}

impl<T: ReplicaOwner> Replicas<T> {
    /// An object may be gone before the cache saw it; then nobody else would wake the owner.
    fn until_shown(&self, key: &ObjectKey, next: Next) -> Next {
        match (next, self.pod_writes.wait(key)) {
            (Next::Settled, Some(wait)) => Next::After(wait),
            (next, _) => next,
        }
    }

    fn observe<'a>(&'a self, key: &ObjectKey, owner: &'a T) -> Result<Observed<'a>, Error> {
        // Before the pods are read: what the cache shows later does not count.
        let is_cache_current = self.pod_writes.wait(key).is_none();
        let uid = owners::uid(owner.metadata());
        let selector =
            owner.selector().map_err(|source| Error::Selector { owner: key.clone(), source })?;
        let mut candidates = self.pods.by_index(BY_CONTROLLER, uid);
        candidates.extend(self.orphans(&key.namespace, &selector));
        Ok(Observed {
            owner_uid: uid.to_owned(),
            is_deleting: owners::is_deleting(owner.metadata()),
            replicas: owner.replicas(),
            selector,
            candidates,
            related_per_node: Box::new(|| self.related_per_node(owner)),
            is_cache_current,
            now: self.clock.now(),
        })
    }

    /// Pods of nobody that the selector may match: those with one label that it asks for, if it
    /// asks for one.
    fn orphans(&self, namespace: &str, selector: &Labels) -> Vec<Arc<PodView>> {
        match labels::exact(selector) {
            Some((key, value)) => {
                let value = labels::index_value(namespace, key, value);
                self.pods.by_index(ORPHANS_BY_LABEL, &value)
            }
            None => self.pods.by_index(ORPHANS, namespace),
        }
    }

    fn related_per_node(&self, owner: &T) -> BTreeMap<String, usize> {
        let family = match owner.controller() {
            Some(controller) => self.owners.by_index(BY_CONTROLLER, &controller.uid),
            None => Vec::new(),
        };
        let mut uids: BTreeSet<&str> = family.iter().map(|it| owners::uid(it.metadata())).collect();
        uids.insert(owners::uid(owner.metadata()));
        let mut per_node = BTreeMap::new();
        for pod in uids.into_iter().flat_map(|it| self.pods.by_index(BY_CONTROLLER, it)) {
            if let Some(node) = pod.node().filter(|_| pod.is_active()) {
                *per_node.entry(node.to_owned()).or_insert(0) += 1;
            }
        }
        per_node
    }

    /// Whether the owner is still there to go on with.
    async fn claim(&self, key: &ObjectKey, owner: &T, plan: &Plan) -> Result<bool, Error> {
        if !plan.adopt.is_empty() && !self.is_still_there(key, owner).await? {
            return Ok(false);
        }
        let reference = owners::controller_reference(owner);
        for pod in &plan.adopt {
            let body = owners::adoption_patch(&reference, pod.uid());
            self.patch("adopt", pod, body).await?;
        }
        for pod in &plan.release {
            let body = owners::release_patch(&reference.uid, pod.uid());
            self.patch("release", pod, body).await?;
        }
        Ok(true)
    }

    /// The cache may show an owner that is gone, or was made again under the same name: its pods
    /// must not be given to it.
    async fn is_still_there(&self, key: &ObjectKey, owner: &T) -> Result<bool, Error> {
        let live = self.owners_api.get(&key.namespace, &key.name).await.unless_gone();
        let live = live.map_err(Failed::to::<T>("look for", key))?;
        let is_same = |it: &T| it.metadata().uid == owner.metadata().uid;
        Ok(live.is_some_and(|it| is_same(&it) && !owners::is_deleting(it.metadata())))
    }

    async fn patch(
        &self,
        action: &'static str,
        pod: &PodView,
        body: bytes::Bytes,
    ) -> Result<(), Failed> {
        let key = pod.key();
        let patched =
            self.pods_api.patch(&key.namespace, &key.name, PatchKind::Strategic, body).await;
        patched.unless_gone().map_err(Failed::to::<Pod>(action, &key))?;
        Ok(())
    }

    /// Creates in batches of 1, 2, 4, ...: a mistake that refuses every pod is found out by one
    /// request and not by hundreds.
    async fn create(&self, key: &ObjectKey, owner: &T, count: usize) -> Result<(), Failed> {
        let Some(template) = owner.template().filter(|_| count > 0) else {
            return Ok(());
        };
        let (mut left, mut batch) = (count, 1);
        while left > 0 {
            let size = batch.min(left);
            let pods = (0..size).map(|_| self.create_one(key, owner, template));
            left -= size;
            if let Some(failed) = join_all(pods).await.into_iter().find_map(Result::err) {
                return if is_namespace_ending(&failed) {
                    Ok(())
                } else {
                    Err(Failed::to::<T>("create a pod of", key)(failed))
                };
            }
            batch *= 2;
        }
        Ok(())
    }

    async fn create_one(
        &self,
        key: &ObjectKey,
        owner: &T,
        template: &PodTemplateSpec,
    ) -> Result<(), ApiError> {
        let pod = pod_from(owner, template);
        match self.pods_api.create(pod).await {
            Ok(pod) => {
                self.pod_writes.wrote(key, pod.meta());
                let message = format!("Created pod: {}", pod.meta().key.name);
                self.events.event(owner, EventType::Normal, "SuccessfulCreate", message);
                Ok(())
            }
            Err(err) => {
                if !is_namespace_ending(&err) {
                    let message = format!("Error creating: {err}");
                    self.events.event(owner, EventType::Warning, "FailedCreate", message);
                }
                Err(err)
            }
        }
    }

    async fn delete(
        &self,
        key: &ObjectKey,
        owner: &T,
        pods: &[Arc<PodView>],
    ) -> Result<(), Failed> {
        let deletions = pods.iter().map(|it| self.delete_one(key, owner, it));
        join_all(deletions).await.into_iter().find(Result::is_err).unwrap_or(Ok(()))
    }

    async fn delete_one(&self, key: &ObjectKey, owner: &T, pod: &PodView) -> Result<(), Failed> {
        let pod_key = pod.key();
        let uid = Some(pod.uid().to_owned());
        let preconditions = Preconditions { uid, resource_version: None };
        let options = DeleteOptions { preconditions, ..DeleteOptions::default() };
        let deleted = self.pods_api.delete(&pod_key.namespace, &pod_key.name, options).await;
        match deleted.unless_replaced() {
            Ok(None) => Ok(()),
            Ok(Some(())) => {
                self.pod_writes.deleted(key, pod);
                let message = format!("Deleted pod: {}", pod_key.name);
                self.events.event(owner, EventType::Normal, "SuccessfulDelete", message);
                Ok(())
            }
            Err(err) => {
                let message = format!("Error deleting: {err}");
                self.events.event(owner, EventType::Warning, "FailedDelete", message);
                Err(Failed::to::<Pod>("delete", &pod_key)(err))
            }
        }
    }

    async fn update_status(
        &self,
        key: &ObjectKey,
        owner: &T,
        plan: &Plan,
        failure: Option<Failure>,
    ) -> Result<Next, Error> {
        // Creating and deleting took a while: written on what is known by now, or the write would
        // be refused.
        let latest = self.owners.get(key).filter(|it| it.metadata().uid == owner.metadata().uid);
        let latest = latest.as_deref().unwrap_or(owner);
        let wanted = Wanted {
            template: owner.template(),
            min_ready_seconds: owner.min_ready_seconds(),
            generation: owner.metadata().generation.unwrap_or(0),
            counts_terminating: T::COUNTS_TERMINATING,
        };
        let now = self.clock.now();
        let planned = status::plan(plan, &wanted, failure, &latest.status(), now);
        if let Some(status) = planned.write {
            let written = self.owners_api.update_status(latest.with_status(status, now)).await;
            let failed = Failed::to::<T>("update the status of", key);
            match written.unless_gone().map_err(failed)? {
                Some(written) => self.owner_writes.wrote(key, written.meta()),
                None => return Ok(Next::Settled),
            }
        }
        Ok(planned.next_available.map_or(Next::Settled, Next::After))
    }
}

fn pod_from<T: ReplicaOwner>(owner: &T, template: &PodTemplateSpec) -> Pod {
    let meta = template.metadata.clone().unwrap_or_default();
    Pod {
        metadata: ObjectMeta {
            generate_name: Some(format!("{}-", owners::name(owner.metadata()))),
            namespace: owner.metadata().namespace.clone(),
            labels: meta.labels,
            annotations: meta.annotations,
            finalizers: meta.finalizers,
            owner_references: Some(vec![owners::controller_reference(owner)]),
            ..ObjectMeta::default()
        },
        spec: template.spec.clone(),
        status: None,
    }
}
