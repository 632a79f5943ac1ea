//! The templates that a workload had: one ControllerRevision each, of which the latest is what it
//! wants now. `kubectl rollout history` and `undo` read them.
//!
//! Every step is a write of its own, and the next look is made when the cache shows it: a crash
//! between any two leaves a history that the next look goes on with.

mod plan;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use api::Identified as _;
use api::apps::ControllerRevision;
use api::object::key_of;
use apimachinery::ObjectKey;
use apimachinery::selector::Labels;
use client::{Api, DeleteOptions, PatchKind, Preconditions};
use informer::Indexer;
use reconcile::{
    Change, Controller, Failed, Next, Outcome as _, OwnWrites, PATIENCE, WorkQueue,
    is_namespace_gone, owner_key,
};

pub(crate) use self::plan::{Limit, Record, Templated, hash_of, surplus, template};
use self::plan::{Step, plan};
use crate::claims::Claimant;
use crate::owners::{self, BY_CONTROLLER, ORPHANS};
use crate::{Startup, workload};

/// The history of all objects of one kind.
pub(crate) struct History<T> {
    revisions: Indexer<ControllerRevision>,
    api: Api<ControllerRevision>,
    owners_api: Api<T>,
    pub writes: Arc<OwnWrites<ControllerRevision>>,
}

/// What a look at the history of one object came to.
pub(crate) enum Seen {
    /// It shows the present template.
    Complete(Record),
    /// Something was written, or somebody else is at work: look again when the cache shows it.
    Unfinished(Next),
    /// The name for the present template is taken by another: the owner has to count it.
    Collision,
}

impl<T: Templated> History<T> {
    pub(crate) fn new(startup: &Startup<'_>, controller: &mut Controller) -> Self {
        Self {
            revisions: controller.indexed_cache(&[
                (BY_CONTROLLER, owners::index_by_controller),
                (ORPHANS, owners::index_orphans),
            ]),
            api: startup.client.api(),
            owners_api: startup.client.api(),
            writes: controller.own_writes(PATIENCE),
        }
    }

    fn unfinished(&self, key: &ObjectKey) -> Seen {
        Seen::Unfinished(self.writes.wait(key).map_or(Next::Settled, Next::After))
    }

    /// Brings the history of `owner` one step on, unless it is complete.
    pub(crate) async fn observe(
        &self,
        key: &ObjectKey,
        owner: &T,
        selector: &Labels,
    ) -> Result<Seen, Failed> {
        let uid = owners::uid(owner.metadata());
        let is_deleting = owners::is_deleting(owner.metadata());
        let mut candidates = self.revisions.by_index(BY_CONTROLLER, uid);
        candidates.extend(self.revisions.by_index(ORPHANS, &key.namespace));
        let claims = Claimant { uid, selector, is_deleting }.claim(&candidates);
        if !claims.adopt.is_empty() || !claims.release.is_empty() {
            self.claim(key, owner, &claims.adopt, &claims.release).await?;
            return Ok(self.unfinished(key));
        }
        match plan(owner, claims.owned) {
            Step::Complete(record) => Ok(Seen::Complete(record)),
            _ if is_deleting => Ok(Seen::Unfinished(Next::Settled)),
            Step::Create(revision) => self.create(key, owner, *revision).await,
            Step::Renumber(revision, number) => {
                let mut renumbered = ControllerRevision::clone(&revision);
                renumbered.revision = number;
                let written = self.api.update(renumbered).await.unless_gone();
                let revision_key = revision.key();
                let failed = Failed::to::<ControllerRevision>("renumber", &revision_key);
                if let Some(written) = written.map_err(failed)? {
                    self.writes.wrote(key, written.meta());
                }
                Ok(self.unfinished(key))
            }
        }
    }

    async fn claim(
        &self,
        key: &ObjectKey,
        owner: &T,
        adopt: &[Arc<ControllerRevision>],
        release: &[Arc<ControllerRevision>],
    ) -> Result<(), Failed> {
        let reference = owners::controller_reference(owner);
        if !adopt.is_empty() && !owners::is_still_there(&self.owners_api, key, owner).await? {
            return Ok(());
        }
        for revision in adopt {
            let body = owners::adoption_patch(&reference, revision.uid());
            self.patch("adopt", key, revision, body).await?;
        }
        for revision in release {
            let body = owners::release_patch(&reference.uid, revision.uid());
            self.patch("release", key, revision, body).await?;
        }
        Ok(())
    }

    async fn patch(
        &self,
        action: &'static str,
        key: &ObjectKey,
        revision: &ControllerRevision,
        body: bytes::Bytes,
    ) -> Result<(), Failed> {
        let revision_key = revision.key();
        let (namespace, name) = (&revision_key.namespace, &revision_key.name);
        let patched = self.api.patch(namespace, name, PatchKind::Strategic, body).await;
        let failed = Failed::to::<ControllerRevision>(action, &revision_key);
        if let Some(written) = patched.unless_replaced().map_err(failed)? {
            self.writes.changed(key, revision, written.meta());
        }
        Ok(())
    }

    async fn create(
        &self,
        key: &ObjectKey,
        owner: &T,
        revision: ControllerRevision,
    ) -> Result<Seen, Failed> {
        let revision_key = key_of(&revision.metadata);
        let data = revision.data.clone();
        match self.api.create(revision).await {
            Ok(written) => {
                self.writes.wrote(key, written.meta());
                Ok(self.unfinished(key))
            }
            Err(err) if err.is_already_exists() => {
                let live = self.api.get(&revision_key.namespace, &revision_key.name).await;
                let failed = Failed::to::<ControllerRevision>("look for", &revision_key);
                let Some(live) = live.unless_gone().map_err(failed)? else {
                    return Ok(Seen::Unfinished(Next::After(std::time::Duration::ZERO)));
                };
                let uid = live.controller().map(|it| it.uid.as_str());
                if live.data == data && uid == owner.metadata().uid.as_deref() {
                    // Our own earlier write, which the cache does not show yet.
                    self.writes.wrote(key, &api::object::meta_of(&live.metadata, Vec::new()));
                    return Ok(self.unfinished(key));
                }
                Ok(Seen::Collision)
            }
            Err(err) if is_namespace_gone(&err) => Ok(Seen::Unfinished(Next::Settled)),
            Err(err) => Err(Failed::to::<ControllerRevision>("create", &revision_key)(err)),
        }
    }

    /// Forgets what nobody can go back to any more.
    pub(crate) async fn delete(
        &self,
        key: &ObjectKey,
        revisions: &[Arc<ControllerRevision>],
    ) -> Result<(), Failed> {
        for revision in revisions {
            let revision_key = revision.key();
            let preconditions = Preconditions {
                uid: Some(revision.uid().to_owned()),
                resource_version: revision.metadata.resource_version.clone(),
            };
            let options = DeleteOptions { preconditions, ..DeleteOptions::default() };
            let (namespace, name) = (&revision_key.namespace, &revision_key.name);
            let deleted = self.api.delete(namespace, name, options).await.unless_replaced();
            let failed = Failed::to::<ControllerRevision>("delete", &revision_key);
            if deleted.map_err(failed)?.is_some() {
                self.writes.deleted(key, revision);
            }
        }
        Ok(())
    }
}

/// Wakes who has a revision, or may take it.
pub(crate) fn follow<T: Templated>(
    change: Change<'_, ControllerRevision>,
    owners: &Indexer<T>,
    queue: &WorkQueue,
) {
    for revision in change.states() {
        if revision.controller().is_some() {
            owner_key(owners, &**revision).into_iter().for_each(|it| queue.add(it));
            continue;
        }
        let matches = |owner: &T| {
            let selector = workload::Workload::pod_selector(owner);
            selector.is_ok_and(|it| it.matches_with(|name| revision.label(name)))
        };
        let all = owners.list_namespace(revision.namespace());
        all.iter().filter(|it| matches(it)).for_each(|it| queue.add(it.key()));
    }
}
