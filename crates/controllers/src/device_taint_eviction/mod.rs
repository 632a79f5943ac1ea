//! Evicts pods that use devices with NoExecute taints which their claims do not tolerate, or only
//! for a while. Taints are those that drivers publish in ResourceSlices and, while their gate is on,
//! those of DeviceTaintRules.

mod garbage;
mod plan;
mod rules;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use api::Identified as _;
use api::core::pod::{Pod, PodView};
use api::resource::device_taint_rule::v1beta2::DeviceTaintRule;
use api::resource::{ResourceClaim, ResourceSlice};
use apimachinery::ObjectKey;
use client::{Api, DeleteOptions, PatchKind, Preconditions};
use informer::Indexer;
use jiff::Timestamp;
use k8s_openapi::api::resource::v1::DeviceTaint;
use reconcile::{
    Change, EventRecorder, EventType, Failed, Next, Outcome as _, OwnWrites, PATIENCE, Reconciler,
    WorkQueue,
};
use stdx::SharedClock;
use telemetry::{Buckets, Counter, Description, Histogram, Stability};

pub(crate) use self::garbage::plan_any;
use self::plan::{Used, Verdict};
use self::rules::Evicted;
use crate::flags::at_least_one;
use crate::pods::{BY_RESOURCE_CLAIM, index_by_resource_claim};
use crate::{Descriptor, Flags, Startup, pods};

pub(crate) const DESCRIPTOR: Descriptor = Descriptor {
    name: "device-taint-eviction-controller",
    aliases: &[],
    identity: "device-taint-eviction-controller",
    is_on_by_default: true,
    flags: Flags::of::<Settings>(),
    start,
};

#[derive(clap::Args)]
#[group(skip)]
struct Settings {
    /// Pods with tainted devices that are looked at at once
    #[arg(long, value_name = "N", default_value = "8", value_parser = at_least_one)]
    concurrent_device_taint_eviction_syncs: usize,
}

/// Index of claims and slices: the pools of devices, with their drivers.
const BY_POOL: &str = "device-pool";
const EVENT: &str = "DeviceTaintManagerEviction";

const DELETIONS: Description<0> = Description {
    name: "device_taint_eviction_controller_pod_deletions_total",
    stability: Stability::Alpha,
    help: "Total number of Pods deleted by DeviceTaintEvictionController since its start.",
    labels: [],
};
const LATENCY: Description<0> = Description {
    name: "device_taint_eviction_controller_pod_deletion_duration_seconds",
    stability: Stability::Alpha,
    help: "Latency, in seconds, between the time when a device taint effect has been activated and a Pod's deletion via DeviceTaintEvictionController.",
    labels: [],
};
const BUCKETS: Buckets =
    Buckets::seconds(&[0.005, 0.025, 0.1, 0.5, 1.0, 2.5, 10.0, 30.0, 60.0, 120.0, 180.0, 240.0]);

/// Who uses which devices.
#[derive(Clone)]
struct Caches {
    pods: Indexer<PodView>,
    claims: Indexer<ResourceClaim>,
    slices: Indexer<ResourceSlice>,
}

struct Eviction {
    caches: Caches,
    /// Where they are served, and their gate is on.
    rules: Option<Indexer<DeviceTaintRule>>,
    evicted: Evicted,
    writes: Arc<OwnWrites<PodView>>,
    api: Api<Pod>,
    events: EventRecorder,
    clock: SharedClock,
    /// Pods that were told, by what they wait for, that they will go.
    waiting: Mutex<BTreeSet<ObjectKey>>,
    deletions: Arc<Counter>,
    latency: Arc<Histogram>,
}

fn start(startup: &Startup<'_>) {
    let mut controller = startup.controller();
    let pods: Indexer<PodView> =
        controller.indexed_cache(&[(BY_RESOURCE_CLAIM, index_by_resource_claim)]);
    let claims: Indexer<ResourceClaim> = controller.indexed_cache(&[(BY_POOL, claim_by_pool)]);
    let slices = controller.indexed_cache(&[(BY_POOL, slice_by_pool)]);
    let reconciler = Eviction {
        caches: Caches { pods: pods.clone(), claims: claims.clone(), slices },
        evicted: Evicted::default(),
        rules: startup.availability.has_device_taint_rules().then(|| controller.cache()),
        writes: controller.own_writes(PATIENCE),
        api: startup.client.api(),
        events: startup.events(),
        clock: startup.world.clock.clone(),
        waiting: Mutex::default(),
        deletions: startup.metrics.counter(&DELETIONS),
        latency: startup.metrics.histogram(&LATENCY, BUCKETS),
    };
    if let Some(all) = &reconciler.rules {
        rules::start(startup, &reconciler.caches, all, &reconciler.evicted);
        let (claims, pods) = (claims.clone(), pods.clone());
        // They seldom change: all claims with devices that they may select are looked at.
        controller = controller.follows(move |change: Change<'_, DeviceTaintRule>, queue| {
            if let Change::Updated { before, after } = change
                && before.spec == after.spec
            {
                return;
            }
            claims.list().iter().for_each(|it| wake(&pods, it, queue));
        });
    }
    let of_claim = pods.clone();
    controller
        .watches(|it: &PodView| it.claims.is_some().then(|| it.key()))
        .follows(move |change: Change<'_, ResourceClaim>, queue: &WorkQueue| {
            wake(&of_claim, change.latest(), queue);
        })
        .follows(move |change: Change<'_, ResourceSlice>, queue: &WorkQueue| {
            // Most changes of slices are of what devices can do.
            if change.with_new(tainted).is_none() {
                return;
            }
            let pool = slice_by_pool(change.latest()).concat();
            claims.by_index(BY_POOL, &pool).iter().for_each(|it| wake(&pods, it, queue));
        })
        .workers(startup.settings::<Settings>().concurrent_device_taint_eviction_syncs)
        .run(reconciler);
}

fn wake(pods: &Indexer<PodView>, claim: &ResourceClaim, queue: &WorkQueue) {
    let pods = pods.by_index(BY_RESOURCE_CLAIM, &claim.key().to_string());
    pods.iter().for_each(|it| queue.add(it.key()));
}

fn pool(driver: &str, pool: &str) -> String {
    format!("{driver}/{pool}")
}

fn claim_by_pool(claim: &ResourceClaim) -> Vec<String> {
    let pools: BTreeSet<String> =
        plan::allocated(claim).map(|it| pool(&it.driver, &it.pool)).collect();
    pools.into_iter().collect()
}

fn slice_by_pool(slice: &ResourceSlice) -> Vec<String> {
    vec![pool(&slice.spec.driver, &slice.spec.pool.name)]
}

/// What of a slice matters here.
fn tainted(slice: &ResourceSlice) -> (i64, Vec<(&str, Vec<&DeviceTaint>)>) {
    let devices = slice.spec.devices.iter().flatten();
    let taints = devices.map(|it| (it.name.as_str(), plan::no_execute(it).collect::<Vec<_>>()));
    (slice.spec.pool.generation, taints.filter(|it| !it.1.is_empty()).collect())
}

impl Reconciler for Eviction {
    type Key = ObjectKey;
    type Error = Failed;

    async fn reconcile(&self, key: &ObjectKey) -> Result<Next, Failed> {
        if let Some(wait) = self.writes.wait(key) {
            return Ok(Next::After(wait));
        }
        let Some(pod) = self.caches.pods.get(key).filter(|it| !it.is_deleting()) else {
            self.waiting().remove(key);
            return Ok(Next::Settled);
        };
        let rules = self.rules.as_ref().map(Indexer::list).unwrap_or_default();
        let used = self.caches.used(&pod);
        match plan::plan(&pod, &used, &rules, self.clock.now()) {
            Verdict::Wait(left) => {
                self.waiting().insert(key.clone());
                return Ok(Next::After(left));
            }
            Verdict::Stay => {
                if self.waiting().remove(key) {
                    let message = "Cancelling deletion".to_owned();
                    self.events.event(&*pod, EventType::Normal, EVENT, message);
                }
            }
            Verdict::Evict(due) => {
                if self.evict(key, &pod, due).await? {
                    self.evicted.count(&rules, &used);
                }
                self.waiting().remove(key);
            }
        }
        Ok(Next::Settled)
    }
}

impl Caches {
    fn used(&self, pod: &PodView) -> Vec<Used> {
        let claims = pod.claims.iter().flat_map(|it| it.claims.iter());
        let used = claims.filter_map(|it| {
            let key = ObjectKey::new(pod.namespace(), it.resolved()?);
            let claim = self.claims.get(&key)?;
            let pools = claim_by_pool(&claim);
            let slices = pools.iter().flat_map(|it| self.slices.by_index(BY_POOL, it)).collect();
            Some(Used { claim, is_made: it.claim.is_empty(), slices })
        });
        used.collect()
    }
}

impl Eviction {
    fn waiting(&self) -> MutexGuard<'_, BTreeSet<ObjectKey>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether it was this that deleted it.
    async fn evict(&self, key: &ObjectKey, pod: &PodView, due: Timestamp) -> Result<bool, Failed> {
        let message = "Marking for deletion".to_owned();
        self.events.event(pod, EventType::Normal, EVENT, message);
        let (reason, message) = (
            "DeletionByDeviceTaintManager",
            "Device Taint manager: deleting due to NoExecute taint",
        );
        let now = self.clock.now();
        let body = pods::disruption_patch(pod, reason, message, now);
        let uid = Some(pod.uid().to_owned());
        let preconditions = Preconditions { uid, resource_version: None };
        let options = DeleteOptions { preconditions, ..DeleteOptions::default() };
        let kind = PatchKind::Strategic;
        let evicted = match self.api.patch_status(&key.namespace, &key.name, kind, body).await {
            Ok(_) => self.api.delete(&key.namespace, &key.name, options).await,
            Err(err) => Err(err),
        };
        let evicted = evicted.unless_replaced().map_err(Failed::to::<Pod>("evict", key))?;
        if evicted.is_some() {
            self.writes.deleted(key, pod);
            self.deletions.increment();
            let late = Duration::try_from(now.duration_since(due)).unwrap_or_default();
            self.latency.observe(late);
        }
        Ok(evicted.is_some())
    }
}
