//! Deployments: ReplicaSets per template, moved from one to the next by a strategy.
//!
//! Names of ReplicaSets follow from the template and every write carries a resourceVersion, so a
//! cache that is behind makes a write fail and never happen twice. A reconcile reads the
//! Deployment's ReplicaSets; pods are looked at for the strategy Recreate alone.

#[cfg(test)]
mod bounds;
mod explain;
mod garbage;
mod plan;
mod proportional;
mod revisions;
mod rolling;
mod status;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use api::Identified as _;
use api::apps::deployment::Deployment;
use api::apps::replica_set::ReplicaSet;
use api::core::pod::PodView;
use api::object::key_of;
use apimachinery::ObjectKey;
use apimachinery::selector::{self, Labels};
use client::{Api, DeleteOptions, PatchKind, Preconditions, Propagation};
use informer::Indexer;
use k8s_openapi::api::apps::v1::DeploymentStatus;
use reconcile::{
    Change, EventRecorder, EventType, Failed, Next, Outcome as _, OwnWrites, PATIENCE, Reconciler,
    is_namespace_gone, itself, owner_key,
};
use stdx::SharedClock;

pub(crate) use self::garbage::plan_any;
use self::plan::{Action, Observed, Scale};
use crate::claims::Claimant;
use crate::flags::at_least_one;
use crate::owners::{BY_CONTROLLER, ORPHANS};
use crate::{Descriptor, Flags, RETRIES_MAX, Startup, owners};

pub(crate) const DESCRIPTOR: Descriptor = Descriptor {
    name: "deployment-controller",
    aliases: &["deployment"],
    identity: "deployment-controller",
    is_on_by_default: true,
    flags: Flags::of::<Settings>(),
    start,
};

#[derive(clap::Args)]
#[group(skip)]
struct Settings {
    /// Deployments that are worked on at once
    #[arg(long, value_name = "N", default_value = "5", value_parser = at_least_one)]
    concurrent_deployment_syncs: usize,
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error("read the selector of deployment {deployment}")]
    Selector {
        deployment: ObjectKey,
        #[source]
        source: selector::Error,
    },
    #[error("replica set {replica_set} exists with another template")]
    Collision { replica_set: ObjectKey },
    #[error(transparent)]
    Call(#[from] Failed),
}

struct Deployments {
    deployments: Indexer<Deployment>,
    replica_sets: Indexer<ReplicaSet>,
    pods: Indexer<PodView>,
    deployments_api: Api<Deployment>,
    replica_sets_api: Api<ReplicaSet>,
    deployment_writes: Arc<OwnWrites<Deployment>>,
    replica_set_writes: Arc<OwnWrites<ReplicaSet>>,
    events: EventRecorder,
    clock: SharedClock,
}

fn start(startup: &Startup<'_>) {
    let mut controller = startup.controller();
    let deployments: Indexer<Deployment> = controller.cache();
    let replica_sets: Indexer<ReplicaSet> = controller.indexed_cache(&[
        (BY_CONTROLLER, owners::index_by_controller),
        (ORPHANS, owners::index_orphans),
    ]);
    let reconciler = Deployments {
        deployments: deployments.clone(),
        replica_sets: replica_sets.clone(),
        pods: controller.indexed_cache(&[(BY_CONTROLLER, owners::index_by_controller)]),
        deployments_api: startup.client.api(),
        replica_sets_api: startup.client.api(),
        deployment_writes: controller.own_writes(PATIENCE),
        replica_set_writes: controller.own_writes(PATIENCE),
        events: startup.events(),
        clock: startup.world.clock.clone(),
    };
    let adopters = deployments.clone();
    controller
        .watches(itself::<Deployment>)
        .owns::<Deployment, ReplicaSet>()
        .watches(move |it: &ReplicaSet| may_adopt(&adopters, it))
        .follows(move |change: Change<'_, PodView>, queue| {
            // Only the last pod of a Recreate rollout is waited for.
            if let Change::Deleted(pod) = change
                && let Some(key) = deployment_of_pod(&deployments, &replica_sets, pod)
                && deployments.get(&key).is_some_and(|it| plan::is_recreate(&it))
            {
                queue.add(key);
            }
        })
        .workers(startup.settings::<Settings>().concurrent_deployment_syncs)
        .gives_up_after(RETRIES_MAX)
        .run(reconciler);
}

/// The Deployments that a ReplicaSet without an owner matches.
fn may_adopt(deployments: &Indexer<Deployment>, replica_set: &ReplicaSet) -> Vec<ObjectKey> {
    if replica_set.controller().is_some() {
        return Vec::new();
    }
    let labels = replica_set.metadata.labels.as_ref().unwrap_or(&NONE);
    deployments
        .list_namespace(owners::namespace(&replica_set.metadata))
        .iter()
        .filter(|it| selector_of(it).is_ok_and(|selector| selector.matches(labels)))
        .map(|it| key_of(&it.metadata))
        .collect()
}

fn deployment_of_pod(
    deployments: &Indexer<Deployment>,
    replica_sets: &Indexer<ReplicaSet>,
    pod: &PodView,
) -> Option<ObjectKey> {
    let replica_set = replica_sets.get(&owner_key(replica_sets, pod)?)?;
    owner_key(deployments, &*replica_set)
}

fn selector_of(deployment: &Deployment) -> Result<Labels, selector::Error> {
    Labels::from_selector(deployment.spec.as_ref().map(|it| &it.selector))
}

impl Reconciler for Deployments {
    type Key = ObjectKey;
    type Error = Error;

    async fn reconcile(&self, key: &ObjectKey) -> Result<Next, Error> {
        let waits = [self.deployment_writes.wait(key), self.replica_set_writes.wait(key)];
        let Some(deployment) = self.deployments.get(key) else {
            self.deployment_writes.forget(key);
            self.replica_set_writes.forget(key);
            return Ok(Next::Settled);
        };
        if let Some(wait) = waits.into_iter().flatten().max() {
            return Ok(Next::After(wait));
        }
        let selector = selector_of(&deployment)
            .map_err(|source| Error::Selector { deployment: key.clone(), source })?;
        if selector.is_everything() {
            return self.refuse_everything(key, &deployment).await;
        }
        let owned = self.claim(key, &deployment, &selector).await?;
        let mut observed = Observed::new(deployment, owned, self.clock.now());
        observed.has_old_pods =
            observed.is_recreate() && observed.old.iter().any(|it| self.has_pods(it));
        let plan = plan::plan(&observed);
        for action in plan.actions {
            self.apply(key, &observed.deployment, action).await?;
        }
        Ok(plan.next.map_or(Next::Settled, Next::After))
    }
}

impl Deployments {
    /// Validation refuses such a Deployment; one from elsewhere must not take every pod of its
    /// namespace.
    async fn refuse_everything(
        &self,
        key: &ObjectKey,
        deployment: &Deployment,
    ) -> Result<Next, Error> {
        let text = "This deployment is selecting all pods. A non-empty selector is required.";
        self.events.event(deployment, EventType::Warning, "SelectingAll", text.to_owned());
        if let Some(status) = status::seen(deployment) {
            self.set_status(key, deployment, status).await?;
        }
        Ok(Next::Settled)
    }

    fn has_pods(&self, replica_set: &ReplicaSet) -> bool {
        let pods = self.pods.by_index(BY_CONTROLLER, owners::uid(&replica_set.metadata));
        pods.iter().any(|it| !it.is_terminal())
    }

    /// The ReplicaSets of the Deployment, after taking those that match and letting go those that
    /// do not any more.
    async fn claim(
        &self,
        key: &ObjectKey,
        deployment: &Arc<Deployment>,
        selector: &Labels,
    ) -> Result<Vec<Arc<ReplicaSet>>, Error> {
        let uid = owners::uid(&deployment.metadata);
        let is_deleting = owners::is_deleting(&deployment.metadata);
        let mut candidates = self.replica_sets.by_index(BY_CONTROLLER, uid);
        candidates.extend(self.replica_sets.by_index(ORPHANS, &key.namespace));
        let claims = Claimant { uid, selector, is_deleting }.claim(&candidates);
        for replica_set in claims.release {
            let body = owners::release_patch(uid, owners::uid(&replica_set.metadata));
            self.patch("release", &replica_set, body).await?;
        }
        let mut owned = claims.owned;
        if claims.adopt.is_empty()
            || !owners::is_still_there(&self.deployments_api, key, &**deployment).await?
        {
            return Ok(owned);
        }
        let reference = owners::controller_reference(&**deployment);
        for replica_set in claims.adopt {
            let body = owners::adoption_patch(&reference, owners::uid(&replica_set.metadata));
            owned.extend(self.patch("adopt", &replica_set, body).await?);
        }
        Ok(owned)
    }

    async fn patch(
        &self,
        action: &'static str,
        replica_set: &ReplicaSet,
        body: bytes::Bytes,
    ) -> Result<Option<Arc<ReplicaSet>>, Error> {
        let key = key_of(&replica_set.metadata);
        let patched = self
            .replica_sets_api
            .patch(&key.namespace, &key.name, PatchKind::Strategic, body)
            .await
            .and_then(|it| it.object());
        Ok(patched.unless_gone().map_err(Failed::to::<ReplicaSet>(action, &key))?)
    }

    async fn apply(
        &self,
        key: &ObjectKey,
        deployment: &Deployment,
        action: Action,
    ) -> Result<(), Error> {
        match action {
            Action::Create(replica_set) => self.create(key, deployment, *replica_set).await,
            Action::Update(replica_set) => self.update(key, *replica_set).await,
            Action::Scale(scale) => self.scale(key, deployment, scale).await,
            Action::Delete(replica_set) => self.delete(&replica_set).await,
            Action::SetRevision(revision) => self.set_revision(key, deployment, revision).await,
            Action::SetStatus(status) => self.set_status(key, deployment, *status).await,
        }
    }

    async fn create(
        &self,
        key: &ObjectKey,
        deployment: &Deployment,
        replica_set: ReplicaSet,
    ) -> Result<(), Error> {
        let name = key_of(&replica_set.metadata);
        let size = plan::replicas(&replica_set);
        match self.replica_sets_api.create(replica_set).await {
            Ok(created) => {
                self.replica_set_writes.wrote(key, created.meta());
                if size > 0 {
                    self.report_scaling(deployment, &name.name, 0, size);
                }
                Ok(())
            }
            Err(err) if err.is_already_exists() => self.settle_name(key, deployment, name).await,
            Err(err) if is_namespace_gone(&err) => Ok(()),
            Err(source) => {
                let message = format!("Failed to create new replica set {:?}: {source}", name.name);
                if let Some(status) = status::not_created(deployment, &message, self.clock.now()) {
                    self.set_status(key, deployment, status).await?;
                }
                let reason = status::NOT_CREATED;
                self.events.event(deployment, EventType::Warning, reason, message);
                Err(Failed::to::<ReplicaSet>("create", &name)(source).into())
            }
        }
    }

    /// The name is taken: by our own earlier write that the cache does not show yet, or by another
    /// template with the same hash, which the next attempt steps around.
    async fn settle_name(
        &self,
        key: &ObjectKey,
        deployment: &Deployment,
        name: ObjectKey,
    ) -> Result<(), Error> {
        let live = self.replica_sets_api.get(&name.namespace, &name.name).await;
        let live = live.map_err(Failed::to::<ReplicaSet>("look for", &name))?;
        if revisions::is_own(&live, deployment) {
            return Ok(());
        }
        self.set_status(key, deployment, status::collided(deployment)).await?;
        Err(Error::Collision { replica_set: name })
    }

    async fn update(&self, owner: &ObjectKey, replica_set: ReplicaSet) -> Result<(), Error> {
        let key = key_of(&replica_set.metadata);
        let written = self.replica_sets_api.update(replica_set).await;
        let written = written.map_err(Failed::to::<ReplicaSet>("update", &key))?;
        self.replica_set_writes.wrote(owner, written.meta());
        Ok(())
    }

    async fn scale(
        &self,
        key: &ObjectKey,
        deployment: &Deployment,
        scale: Scale,
    ) -> Result<(), Error> {
        let before = plan::replicas(&scale.replica_set);
        let mut replica_set = ReplicaSet::clone(&scale.replica_set);
        let name = owners::name(&replica_set.metadata).to_owned();
        replica_set.spec.get_or_insert_default().replicas = Some(scale.replicas);
        let annotations = replica_set.metadata.annotations.get_or_insert_default();
        annotations.extend(plan::size_annotations(deployment));
        self.update(key, replica_set).await?;
        if before != scale.replicas {
            self.report_scaling(deployment, &name, before, scale.replicas);
        }
        Ok(())
    }

    fn report_scaling(&self, deployment: &Deployment, name: &str, from: i32, to: i32) {
        let way = if to > from { "up" } else { "down" };
        let message = format!("Scaled {way} replica set {name} from {from} to {to}");
        self.events.event(deployment, EventType::Normal, "ScalingReplicaSet", message);
    }

    async fn delete(&self, replica_set: &ReplicaSet) -> Result<(), Error> {
        let key = key_of(&replica_set.metadata);
        let options = DeleteOptions {
            propagation: Some(Propagation::Background),
            preconditions: Preconditions {
                uid: replica_set.metadata.uid.clone(),
                resource_version: replica_set.metadata.resource_version.clone(),
            },
            ..DeleteOptions::default()
        };
        let deleted = self.replica_sets_api.delete(&key.namespace, &key.name, options).await;
        deleted.unless_gone().map_err(Failed::to::<ReplicaSet>("delete", &key))?;
        Ok(())
    }

    /// As a part of the status: on the object itself a new annotation would count as a new
    /// generation.
    async fn set_revision(
        &self,
        key: &ObjectKey,
        deployment: &Deployment,
        revision: String,
    ) -> Result<(), Error> {
        let mut deployment = deployment.clone();
        let annotations = deployment.metadata.annotations.get_or_insert_default();
        annotations.insert(revisions::REVISION.to_owned(), revision);
        let written = self.deployments_api.update_status(deployment).await.unless_gone();
        let failed = Failed::to::<Deployment>("set the revision of", key);
        if let Some(written) = written.map_err(failed)? {
            self.deployment_writes.wrote(key, written.meta());
        }
        Ok(())
    }

    async fn set_status(
        &self,
        key: &ObjectKey,
        deployment: &Deployment,
        status: DeploymentStatus,
    ) -> Result<(), Error> {
        let deployment = Deployment { status: Some(status), ..deployment.clone() };
        let written = self.deployments_api.update_status(deployment).await.unless_gone();
        let failed = Failed::to::<Deployment>("update the status of", key);
        if let Some(written) = written.map_err(failed)? {
            self.deployment_writes.wrote(key, written.meta());
        }
        Ok(())
    }
}

static NONE: std::collections::BTreeMap<String, String> = std::collections::BTreeMap::new();
