//! What ReplicaSet and ReplicationController share: keeping a number of equal pods.
//!
//! The cache may be behind our own writes, so a reconcile creates and deletes only when it shows
//! all that earlier ones did (`OwnWrites`). A pod event that matters wakes its owner, found in
//! O(1); a reconcile reads the owner's pods and the orphans with one label of its selector, by
//! index; never all pods.

mod garbage;
mod metrics;
mod plan;
mod status;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use api::Identified as _;
use api::core::pod::PodView;
use apimachinery::ObjectKey;
use apimachinery::selector;
use client::Api;
use informer::Indexer;
use k8s_openapi::api::core::v1::PodTemplateSpec;

use reconcile::{
    Change, Failed, Next, Outcome as _, OwnWrites, PATIENCE, Reconciler, WorkQueue,
    is_namespace_ending, itself,
};
use stdx::SharedClock;

pub(crate) use self::garbage::plan_any;
use self::metrics::Metrics;
use self::plan::{Observed, Plan};
use self::status::Wanted;
pub(crate) use self::status::{Failure, Status};
use crate::owners::BY_CONTROLLER;
use crate::pod_control::{PodControl, Words};
use crate::workload::{BY_SELECTOR, POD_INDEXES, Workload};
use crate::{Startup, owners, pod_control, workload};

/// A kind that keeps a number of equal pods.
pub(crate) trait ReplicaOwner: Workload {
    /// Who its events are from.
    const REPORTER: &'static str;
    /// Whether the status counts pods that are being deleted.
    const COUNTS_TERMINATING: bool;

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
    owner_writes: Arc<OwnWrites<T>>,
    pod_control: PodControl<ObjectKey>,
    metrics: Metrics,
    clock: SharedClock,
}

pub(crate) fn start<T: ReplicaOwner>(startup: &Startup<'_>, workers: usize) {
    let mut controller = startup.controller();
    let owners: Indexer<T> = controller.indexed_cache(&[
        (BY_CONTROLLER, owners::index_by_controller),
        (BY_SELECTOR, workload::index_by_selector),
    ]);
    let events = startup.events_of(T::REPORTER);
    let reconciler = Replicas {
        owners: owners.clone(),
        pods: controller.indexed_cache(POD_INDEXES),
        owners_api: startup.client.api::<T>(),
        owner_writes: controller.own_writes(PATIENCE),
        pod_control: PodControl::new(startup, &mut controller, &events, Words::Plain),
        metrics: Metrics::new(&startup.metrics),
        clock: startup.world.clock.clone(),
    };
    controller
        .watches(itself::<T>)
        .follows(move |change, queue| follow_pod(change, &owners, queue))
        .workers(workers)
        .run(reconciler);
}

fn follow_pod<T: ReplicaOwner>(
    change: Change<'_, PodView>,
    owners: &Indexer<T>,
    queue: &WorkQueue,
) {
    if let Change::Updated { before, after } = change
        && !workload::is_relevant(before, after)
    {
        return;
    }
    workload::wake_owners(change, owners, queue);
}

impl<T: ReplicaOwner> Reconciler for Replicas<T> {
    type Key = ObjectKey;
    type Error = Error;

    async fn reconcile(&self, key: &ObjectKey) -> Result<Next, Error> {
        let Some(owner) = self.owners.get(key) else {
            self.owner_writes.forget(key);
            self.pod_control.writes.forget(key);
            return Ok(Next::Settled);
        };
        if let Some(wait) = self.owner_writes.wait(key) {
            self.metrics.stale(T::FACTS.group, T::FACTS.plural);
            return Ok(Next::After(wait));
        }
        let plan = plan::plan(&self.observe(key, &owner)?);
        if !self.claim(key, &*owner, &plan).await? {
            return Ok(Next::Settled);
        }
        self.metrics.deleted(&plan.active, &plan.delete, self.clock.now());
        let (reason, done) = match self.create(key, &*owner, plan.create).await {
            Ok(()) => {
                ("FailedDelete", self.pod_control.delete_all(key, &*owner, &plan.delete).await)
            }
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
        match (next, self.pod_control.writes.wait(key)) {
            (Next::Settled, Some(wait)) => Next::After(wait),
            (next, _) => next,
        }
    }

    fn observe<'a>(&'a self, key: &ObjectKey, owner: &'a T) -> Result<Observed<'a>, Error> {
        // Before the pods are read: what the cache shows later does not count.
        let is_cache_current = self.pod_control.writes.wait(key).is_none();
        if !is_cache_current {
            self.metrics.stale("", "pods");
        }
        let uid = owners::uid(owner.metadata());
        let selector = owner
            .pod_selector()
            .map_err(|source| Error::Selector { owner: key.clone(), source })?;
        let candidates = workload::candidates(&self.pods, uid, &key.namespace, &selector);
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
        if !plan.adopt.is_empty() && !owners::is_still_there(&self.owners_api, key, owner).await? {
            return Ok(false);
        }
        self.pod_control.claim(key, owner, &plan.adopt, &plan.release).await?;
        Ok(true)
    }

    async fn create(&self, key: &ObjectKey, owner: &T, count: usize) -> Result<(), Failed> {
        let Some(template) = owner.template().filter(|_| count > 0) else {
            return Ok(());
        };
        let create = |(): &()| {
            self.pod_control.create(key, owner, pod_control::from_template(owner, template))
        };
        let created = pod_control::in_batches(&vec![(); count], create).await;
        let failed = created.failed.into_iter().find(|it| !is_namespace_ending(it));
        failed.map_or(Ok(()), |it| Err(Failed::to::<T>("create a pod of", key)(it)))
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
