//! Claims to devices: makes those that pods ask for by template, clears who uses them when pods
//! are done, and gives devices back that nobody uses any more.
//!
//! Pods and claims are two sorts of work in one queue, since each wakes the other.

mod claim;
mod garbage;
mod metrics;
mod pod;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use api::Identified as _;
use api::core::Pod;
use api::core::pod::PodView;
use api::resource::{ResourceClaim, ResourceClaimTemplate};
use apimachinery::ObjectKey;
use client::{Api, DeleteOptions, PatchKind, Preconditions};
use informer::Indexer;
use k8s_openapi::api::resource::v1::ResourceClaimConsumerReference;
use reconcile::{
    Change, EventRecorder, EventType, Failed, Next, Outcome as _, OwnWrites, PATIENCE, Reconciler,
    WorkQueue,
};
use serde_json::json;

use self::claim::{Consumer, Owner, Step};
pub(crate) use self::garbage::plan_any;
use self::metrics::Metrics;
use self::pod::{Observed, Plan};
use crate::flags::at_least_one;
use crate::pods::{BY_RESOURCE_CLAIM, index_by_resource_claim};
use crate::{Descriptor, Flags, Startup, owners};

pub(crate) const DESCRIPTOR: Descriptor = Descriptor {
    name: "resourceclaim-controller",
    aliases: &["resource-claim-controller"],
    identity: "resource-claim-controller",
    is_on_by_default: true,
    flags: Flags::of::<Settings>(),
    start,
};

#[derive(clap::Args)]
#[group(skip)]
struct Settings {
    /// Pods and claims to devices that are worked on at once
    #[arg(long, value_name = "N", default_value = "50", value_parser = at_least_one)]
    concurrent_resourceclaim_syncs: usize,
}

/// Index of pods: the templates that they name, with their namespace.
const BY_TEMPLATE: &str = "resource-claim-template";
/// Index of claims: the uid of the pod that one was made for.
const BY_POD: &str = "pod";

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Key {
    Pod(ObjectKey),
    Claim(ObjectKey),
}

impl std::fmt::Display for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Pod(key) => write!(f, "pod:{key}"),
            Self::Claim(key) => write!(f, "claim:{key}"),
        }
    }
}

struct Claims {
    pods: Indexer<PodView>,
    claims: Indexer<ResourceClaim>,
    templates: Indexer<ResourceClaimTemplate>,
    claim_writes: Arc<OwnWrites<ResourceClaim, Key>>,
    pod_writes: Arc<OwnWrites<PodView, Key>>,
    pods_api: Api<Pod>,
    claims_api: Api<ResourceClaim>,
    events: EventRecorder,
    metrics: Metrics,
}

fn start(startup: &Startup<'_>) {
    let mut controller = startup.controller();
    let pods: Indexer<PodView> = controller
        .indexed_cache(&[(BY_RESOURCE_CLAIM, index_by_resource_claim), (BY_TEMPLATE, by_template)]);
    let claims: Indexer<ResourceClaim> = controller.indexed_cache(&[(BY_POD, by_pod)]);
    let reconciler = Claims {
        pods: pods.clone(),
        claims: claims.clone(),
        templates: controller.cache(),
        claim_writes: controller.own_writes(PATIENCE),
        pod_writes: controller.own_writes(PATIENCE),
        pods_api: startup.client.api(),
        claims_api: startup.client.api(),
        events: startup.events(),
        metrics: Metrics::new(&startup.metrics, &claims),
    };
    let of_claim = pods.clone();
    controller
        .follows(|change: Change<'_, PodView>, queue: &WorkQueue<Key>| {
            follow_pod(&change, queue);
        })
        .follows(move |change: Change<'_, ResourceClaim>, queue: &WorkQueue<Key>| {
            let key = change.latest().key();
            wake(&of_claim, BY_RESOURCE_CLAIM, &key, queue);
            queue.add(Key::Claim(key));
        })
        .follows(move |change: Change<'_, ResourceClaimTemplate>, queue: &WorkQueue<Key>| {
            wake(&pods, BY_TEMPLATE, &change.latest().key(), queue);
        })
        .workers(startup.settings::<Settings>().concurrent_resourceclaim_syncs)
        .run(reconciler);
}

/// A pod that claims nothing is nobody's business here.
fn follow_pod(change: &Change<'_, PodView>, queue: &WorkQueue<Key>) {
    let pod = change.latest();
    let Some(part) = pod.claims.as_deref() else { return };
    let is_gone = matches!(change, Change::Deleted(_));
    if is_gone || pod::is_done(pod) {
        let extended = Some(&*part.extended).filter(|it| !it.is_empty());
        let claims = part.claims.iter().filter_map(|it| it.resolved()).chain(extended);
        claims.for_each(|it| queue.add(Key::Claim(ObjectKey::new(pod.namespace(), it))));
    }
    queue.add(Key::Pod(pod.key()));
}

fn wake(pods: &Indexer<PodView>, index: &'static str, of: &ObjectKey, queue: &WorkQueue<Key>) {
    let pods = pods.by_index(index, &of.to_string());
    pods.iter().for_each(|it| queue.add(Key::Pod(it.key())));
}

fn by_template(pod: &PodView) -> Vec<String> {
    let claims = pod.claims.iter().flat_map(|it| it.claims.iter());
    let templates = claims.map(|it| &*it.template).filter(|it| !it.is_empty());
    templates.map(|it| ObjectKey::new(pod.namespace(), it).to_string()).collect()
}

fn by_pod(claim: &ResourceClaim) -> Vec<String> {
    pod::owner(claim).map(|it| it.uid.clone()).into_iter().collect()
}

impl Reconciler for Claims {
    type Key = Key;
    type Error = Failed;

    async fn reconcile(&self, key: &Key) -> Result<Next, Failed> {
        let wait = self.claim_writes.wait(key).or_else(|| self.pod_writes.wait(key));
        if let Some(wait) = wait {
            return Ok(Next::After(wait));
        }
        match key {
            Key::Pod(pod) => self.reconcile_pod(key, pod).await?,
            Key::Claim(claim) => self.reconcile_claim(key, claim).await?,
        }
        Ok(Next::Settled)
    }
}

impl Claims {
    async fn reconcile_pod(&self, owner: &Key, key: &ObjectKey) -> Result<(), Failed> {
        let Some(pod) = self.pods.get(key).filter(|it| !it.is_deleting()) else { return Ok(()) };
        let observed = Observed {
            pod: &pod,
            claims: self.claims_of(&pod),
            made: self.claims.by_index(BY_POD, pod.uid()),
            templates: self.templates_of(&pod),
        };
        let Plan { names, wishes, reserve, complaints } = pod::plan(&observed);
        let mut names = names;
        for wish in wishes {
            let claim = pod::claim(&pod, wish.template, wish.name);
            let created = self.claims_api.create(claim).await;
            self.metrics.created(wish.template, created.is_ok());
            match created {
                Ok(written) => {
                    self.claim_writes.wrote(owner, written.meta());
                    names.insert(wish.name.to_owned(), written.meta().key.name.clone());
                }
                Err(err) if reconcile::is_namespace_gone(&err) => return Ok(()),
                Err(err) => {
                    self.complain(&pod, wish.name, &format!("create ResourceClaim : {err}"));
                    return Err(Failed::to::<ResourceClaim>("make a claim of", key)(err));
                }
            }
        }
        for (name, why) in complaints {
            self.complain(&pod, &name, &why);
        }
        if !names.is_empty() {
            self.publish(owner, &pod, &names).await?;
        }
        for claim in reserve {
            self.reserve(owner, &pod, &claim).await?;
        }
        Ok(())
    }

    fn claims_of(&self, pod: &PodView) -> Vec<Arc<ResourceClaim>> {
        let claims = pod.claims.iter().flat_map(|it| it.claims.iter());
        let names = claims.filter_map(|it| it.resolved());
        names.filter_map(|it| self.claims.get(&ObjectKey::new(pod.namespace(), it))).collect()
    }

    fn templates_of(&self, pod: &PodView) -> Vec<Arc<ResourceClaimTemplate>> {
        let claims = pod.claims.iter().flat_map(|it| it.claims.iter());
        let names = claims.map(|it| ObjectKey::new(pod.namespace(), &*it.template));
        names.filter_map(|it| self.templates.get(&it)).collect()
    }

    fn complain(&self, pod: &Arc<PodView>, name: &str, why: &str) {
        let text = format!("PodResourceClaim {name}: {why}");
        self.events.event(&**pod, EventType::Warning, "FailedResourceClaimCreation", text);
    }

    /// Says in the pod's status which claims were made for it.
    async fn publish(
        &self,
        owner: &Key,
        pod: &PodView,
        names: &std::collections::BTreeMap<String, String>,
    ) -> Result<(), Failed> {
        let statuses =
            names.iter().map(|(name, claim)| json!({"name": name, "resourceClaimName": claim}));
        let statuses: Vec<serde_json::Value> = statuses.collect();
        let patch = json!({
            "metadata": {"uid": pod.uid()},
            "status": {"resourceClaimStatuses": statuses},
        });
        let (key, body) = (pod.key(), patch.to_string().into());
        let api = &self.pods_api;
        let patched = api.patch_status(&key.namespace, &key.name, PatchKind::Strategic, body).await;
        let patched = patched.unless_replaced();
        let failed = Failed::to::<Pod>("name the claims of", &key);
        if let Some(written) = patched.map_err(failed)? {
            self.pod_writes.changed(owner, pod, written.meta());
        }
        Ok(())
    }

    /// For a pod that somebody else than the scheduler has bound.
    async fn reserve(
        &self,
        owner: &Key,
        pod: &PodView,
        claim: &Arc<ResourceClaim>,
    ) -> Result<(), Failed> {
        let mut reserved = ResourceClaim::clone(claim);
        let status = reserved.status.get_or_insert_default();
        status.reserved_for.get_or_insert_default().push(ResourceClaimConsumerReference {
            api_group: None,
            resource: "pods".to_owned(),
            name: pod.key().name,
            uid: pod.uid().to_owned(),
        });
        let written = self.claims_api.update_status(reserved).await.unless_gone();
        let failed = Failed::to::<ResourceClaim>("reserve", &claim.key());
        if let Some(written) = written.map_err(failed)? {
            self.claim_writes.changed(owner, claim, written.meta());
        }
        Ok(())
    }

    async fn reconcile_claim(&self, owner: &Key, key: &ObjectKey) -> Result<(), Failed> {
        let Some(mut claim) = self.claims.get(key) else { return Ok(()) };
        let mut consumers = Vec::new();
        for consumer in claim::reserved(&claim) {
            consumers.push(self.consumer(&key.namespace, consumer).await?);
        }
        let pod = pod::owner(&claim).map(|it| self.owner_of(&key.namespace, it));
        let mut has_released = false;
        while let Some(step) = claim::plan(&claim, &consumers, pod, has_released) {
            consumers.retain(|it| *it == Consumer::Stays);
            has_released |= matches!(step, Step::Release { .. });
            match self.take(owner, &claim, step).await? {
                Some(written) => claim = written,
                None => break,
            }
        }
        Ok(())
    }

    /// What becomes of one who uses a claim. Before a pod is taken for gone the server is asked:
    /// the cache may be behind the scheduler.
    async fn consumer(
        &self,
        namespace: &str,
        reference: &ResourceClaimConsumerReference,
    ) -> Result<Consumer, Failed> {
        let is_pod = reference.resource == "pods"
            && reference.api_group.as_deref().unwrap_or_default().is_empty();
        if !is_pod {
            return Ok(Consumer::Stays);
        }
        let key = ObjectKey::new(namespace, reference.name.as_str());
        if let Some(pod) = self.pods.get(&key) {
            let is_over = pod.uid() != reference.uid || pod::is_done(&pod);
            return Ok(if is_over { Consumer::Over } else { Consumer::Stays });
        }
        let live = self.pods_api.get(namespace, &reference.name).await.unless_gone();
        let live = live.map_err(Failed::to::<Pod>("look for", &key))?;
        let is_there = live.is_some_and(|it| owners::uid(&it.metadata) == reference.uid);
        Ok(if is_there { Consumer::Stays } else { Consumer::Over })
    }

    /// One that is not in the cache may only be new: the garbage collector sees to it.
    fn owner_of(
        &self,
        namespace: &str,
        reference: &k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference,
    ) -> Owner {
        let pod = self.pods.get(&ObjectKey::new(namespace, reference.name.as_str()));
        match pod {
            Some(pod) if pod.uid() != reference.uid || pod::is_done(&pod) => Owner::Over,
            _ => Owner::Stays,
        }
    }

    /// The claim after the step; absent when it is gone.
    async fn take(
        &self,
        owner: &Key,
        claim: &Arc<ResourceClaim>,
        step: Step,
    ) -> Result<Option<Arc<ResourceClaim>>, Failed> {
        let key = claim.key();
        let mut changed = ResourceClaim::clone(claim);
        let written = match step {
            Step::Release { reserved_for, deallocates } => {
                let status = changed.status.get_or_insert_default();
                status.reserved_for = (!reserved_for.is_empty()).then_some(reserved_for);
                if deallocates {
                    status.allocation = None;
                }
                self.claims_api.update_status(changed).await
            }
            Step::Unprotect => {
                let finalizers = changed.metadata.finalizers.iter_mut();
                finalizers.for_each(|it| it.retain(|it| it != claim::FINALIZER));
                self.claims_api.update(changed).await
            }
            Step::Delete => {
                self.delete(&key, claim).await?;
                self.claim_writes.deleted(owner, claim);
                return Ok(None);
            }
        };
        let failed = Failed::to::<ResourceClaim>("clear", &key);
        let Some(written) = written.unless_gone().map_err(failed)? else { return Ok(None) };
        self.claim_writes.changed(owner, claim, written.meta());
        // With its last finalizer one that was deleted is gone.
        let object = written.object().map_err(Failed::to::<ResourceClaim>("read", &key))?;
        Ok(Some(object))
    }

    async fn delete(&self, key: &ObjectKey, claim: &ResourceClaim) -> Result<(), Failed> {
        let uid = Some(claim.uid().to_owned());
        let preconditions = Preconditions { uid, resource_version: None };
        let options = DeleteOptions { preconditions, ..DeleteOptions::default() };
        let deleted = self.claims_api.delete(&key.namespace, &key.name, options).await;
        deleted.unless_replaced().map_err(Failed::to::<ResourceClaim>("delete", key))?;
        Ok(())
    }
}
