//! Jobs: pods that run until enough of them have succeeded, each counted once.
//!
//! A reconcile plans when its caches show all that earlier ones wrote to the Job and its pods. Pods
//! wake their Job after a second, so that many that end together are counted together. Pods whose
//! Job is gone or over lose their finalizers, under a key of their own.

mod apply;
mod backoff;
mod counting;
#[cfg(test)]
mod crashes;
mod ending;
mod explain;
mod garbage;
mod indexes;
mod metrics;
mod plan;
mod policies;
mod staffing;
mod status;
mod template;
mod terms;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{self, Display};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use api::batch::job::{Job, conditions, is_managed_elsewhere};
use api::core::pod::PodView;
use api::{Identified as _, Meta};
use apimachinery::ObjectKey;
use apimachinery::selector::{self, Labels};
use client::{Api, ListOptions};
use informer::Indexer;
use reconcile::{
    Change, EventRecorder, Failed, Next, Outcome as _, OwnWrites, PATIENCE, Reconciler, WorkQueue,
    owner_key,
};
use stdx::SharedClock;
use tokio::time::Instant;

use self::backoff::Record;
pub(crate) use self::garbage::{plan_any, read_any_indexes};
use self::metrics::Metrics;
use self::plan::Observed;
use self::terms::is_tracked;
use crate::explanations::Explanations;
use crate::flags::at_least_one;
use crate::owners::BY_CONTROLLER;
use crate::pod_control::{PodControl, Words};
use crate::workload::{BY_SELECTOR, POD_INDEXES, Workload};
use crate::{Descriptor, Flags, Startup, owners, workload};

pub(crate) const DESCRIPTOR: Descriptor = Descriptor {
    name: "job-controller",
    aliases: &["job"],
    identity: "job-controller",
    is_on_by_default: true,
    flags: Flags::of::<Settings>(),
    start,
};

#[derive(clap::Args)]
#[group(skip)]
struct Settings {
    /// Jobs that are worked on at once
    #[arg(long, value_name = "N", default_value = "5", value_parser = at_least_one)]
    concurrent_job_syncs: usize,
}

/// Changes of pods are looked at together, once in this long.
const BATCH: Duration = Duration::from_secs(1);

/// What a Job waits for is told of when it has waited so long.
const HOLD: Duration = Duration::from_secs(5);

/// What there is to look at.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Key {
    Job(ObjectKey),
    /// A pod with the finalizer, whose Job may be gone or over.
    Stray(ObjectKey),
}

impl Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Job(key) => key.fmt(f),
            Self::Stray(key) => write!(f, "pod {key}"),
        }
    }
}

#[derive(Debug, thiserror::Error)]
enum Error {
    #[error("read the selector of {job}")]
    Selector {
        job: ObjectKey,
        #[source]
        source: selector::Error,
    },
    #[error(transparent)]
    Call(#[from] Failed),
}

struct Jobs {
    jobs: Indexer<Job>,
    pods: Indexer<PodView>,
    jobs_api: Api<Job>,
    job_writes: Arc<OwnWrites<Job, Key>>,
    pod_control: PodControl<Key>,
    /// Of Jobs that are not over.
    records: Mutex<BTreeMap<ObjectKey, Record>>,
    /// Uids of Jobs that are not over and whose pods the cache is known to show as they are.
    known: Mutex<BTreeMap<ObjectKey, String>>,
    explanations: Explanations,
    events: EventRecorder,
    clock: SharedClock,
    metrics: Arc<Metrics>,
}

fn start(startup: &Startup<'_>) {
    let mut controller = startup.controller::<Key>();
    let jobs: Indexer<Job> =
        controller.indexed_cache(&[(BY_SELECTOR, workload::index_by_selector)]);
    let pods: Indexer<PodView> = controller.indexed_cache(POD_INDEXES);
    let events = startup.events();
    let metrics = Arc::new(Metrics::new(&startup.metrics));
    let reconciler = Jobs {
        jobs: jobs.clone(),
        pods: pods.clone(),
        jobs_api: startup.client.api(),
        job_writes: controller.own_writes(PATIENCE),
        pod_control: PodControl::new(startup, &mut controller, &events, Words::Plain),
        records: Mutex::default(),
        known: Mutex::default(),
        explanations: Explanations::new(HOLD),
        events,
        clock: startup.world.clock.clone(),
        metrics: metrics.clone(),
    };
    let seen = metrics.clone();
    controller
        .follows(move |change, queue| follow_job(change, &pods, &seen, queue))
        .follows(move |change, queue| follow_pod(change, &jobs, &metrics, queue))
        .workers(startup.settings::<Settings>().concurrent_job_syncs)
        .run(reconciler);
}

/// A Job that is gone or over counts no pods any more.
fn follow_job(
    change: Change<'_, Job>,
    pods: &Indexer<PodView>,
    metrics: &Metrics,
    queue: &WorkQueue<Key>,
) {
    if let Change::Added(job) = change
        && let Some(name) = job.spec.as_ref().filter(|it| is_managed_elsewhere(it))
    {
        metrics.managed_elsewhere(name.managed_by.as_deref().unwrap_or_default());
    }
    let Some(job) = change.states().next() else { return };
    queue.add(Key::Job(job.key()));
    if change.after().is_none_or(|it| is_finished(it)) {
        let left = pods.by_index(BY_CONTROLLER, owners::uid(&job.metadata));
        left.iter().filter(|it| is_tracked(it)).for_each(|it| queue.add(Key::Stray(it.key())));
    }
}

/// Pods wake their Job; a pod without an owner wakes all that may adopt it.
fn follow_pod(
    change: Change<'_, PodView>,
    jobs: &Indexer<Job>,
    metrics: &Metrics,
    queue: &WorkQueue<Key>,
) {
    metrics.follow(change);
    if let Change::Updated { before, after } = change
        && !is_relevant(before, after)
    {
        return;
    }
    // What we wait for ourselves need not be collected.
    let delay = match change {
        Change::Updated { before, after } if is_tracked(before) && !is_tracked(after) => {
            Duration::ZERO
        }
        Change::Deleted(_) => Duration::ZERO,
        _ => BATCH,
    };
    for pod in change.states() {
        if let Some(key) = owner_key(jobs, &**pod) {
            queue.add_after(Key::Job(key), delay);
        }
    }
    let Some(pod) = change.after() else { return };
    if is_tracked(pod) && owner(jobs, pod).is_none_or(|it| is_finished(&it)) {
        queue.add(Key::Stray(pod.key()));
    }
    if pod.controller().is_none() {
        workload::may_adopt(jobs, pod)
            .into_iter()
            .for_each(|it| queue.add_after(Key::Job(it), delay));
    }
}

/// Whether the plan of a Job could differ between two states of a pod.
fn is_relevant(before: &PodView, after: &PodView) -> bool {
    before.meta.uid != after.meta.uid
        || before.meta.labels != after.meta.labels
        || before.meta.owner_references != after.meta.owner_references
        || before.meta.finalizers != after.meta.finalizers
        || before.is_deleting() != after.is_deleting()
        || before.phase != after.phase
        || before.is_ready != after.is_ready
        || before.job != after.job
}

fn is_finished(job: &Job) -> bool {
    job.status.as_ref().is_some_and(conditions::is_finished)
}

fn owner(jobs: &Indexer<Job>, pod: &PodView) -> Option<Arc<Job>> {
    jobs.get(&owner_key(jobs, pod)?)
}

impl Workload for Job {
    fn pod_selector(&self) -> Result<Labels, selector::Error> {
        Labels::from_selector(self.spec.as_ref().and_then(|it| it.selector.as_ref()))
    }
}

impl Reconciler for Jobs {
    type Key = Key;
    type Error = Error;

    async fn reconcile(&self, key: &Key) -> Result<Next, Error> {
        match key {
            Key::Job(job) => self.look_at_job(key, job).await,
            Key::Stray(pod) => self.look_at_stray(pod).await,
        }
    }
}

impl Jobs {
    fn records(&self) -> MutexGuard<'_, BTreeMap<ObjectKey, Record>> {
        self.records.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn commit(&self, key: &ObjectKey, record: Record) {
        if record == Record::default() {
            self.records().remove(key);
        } else {
            self.records().insert(key.clone(), record);
        }
    }

    fn known(&self) -> MutexGuard<'_, BTreeMap<ObjectKey, String>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn forget(&self, key: &ObjectKey) {
        self.records().remove(key);
        self.known().remove(key);
        self.explanations.forget(key);
    }

    /// A Job that has just been made has no pods that somebody could have counted.
    fn is_known(&self, key: &ObjectKey, observed: &Observed) -> bool {
        let uid = owners::uid(&observed.job.metadata);
        let mut known = self.known();
        let is_new = observed.candidates.is_empty()
            && observed.job.status.as_ref().is_none_or(|it| it.start_time.is_none());
        if is_new {
            known.insert(key.clone(), uid.to_owned());
        }
        known.get(key).is_some_and(|it| it == uid)
    }

    /// Another process may have counted pods since the cache saw them last, and the status that the
    /// cache shows may have them already: then they would be counted twice. So the first look is at
    /// the server, and what it shows is waited for.
    async fn get_to_know(
        &self,
        key: &Key,
        job_key: &ObjectKey,
        observed: &Observed,
    ) -> Result<Next, Error> {
        let options = ListOptions {
            label_selector: Some(observed.selector.to_string()),
            ..ListOptions::default()
        };
        let live = self.pod_control.api.list(&job_key.namespace, options).await;
        let live = live.map_err(Failed::to::<Job>("list the pods of", job_key))?;
        let uids: BTreeSet<&str> = live.items.iter().map(|it| it.meta.uid.as_str()).collect();
        for pod in observed.candidates.iter().filter(|it| !uids.contains(it.uid())) {
            self.pod_control.writes.changed(key, pod, &pod.meta);
        }
        // What is being deleted may be gone by now, and then nobody would tell.
        let is_lasting = |it: &Meta| !it.is_deleting || self.pods.get(&it.key).is_some();
        let lasting = live.items.iter().filter(|it| is_lasting(&it.meta));
        lasting.for_each(|it| self.pod_control.writes.wrote(key, &it.meta));
        let uid = owners::uid(&observed.job.metadata).to_owned();
        self.known().insert(job_key.clone(), uid);
        Ok(Next::After(
            self.pod_control.writes.wait(key).map_or(Duration::ZERO, |it| it.min(PATIENCE)),
        ))
    }

    async fn look_at_job(&self, key: &Key, job_key: &ObjectKey) -> Result<Next, Error> {
        if self.jobs.get(job_key).is_none() {
            self.job_writes.forget(key);
            self.pod_control.writes.forget(key);
            self.forget(job_key);
            return Ok(Next::Settled);
        }
        for (wait, group, resource) in [
            (self.job_writes.wait(key), "batch", "jobs"),
            (self.pod_control.writes.wait(key), "", "pods"),
        ] {
            if let Some(wait) = wait {
                self.metrics.stale(group, resource);
                return Ok(Next::After(wait));
            }
        }
        let Some(job) = self.jobs.get(job_key) else { return Ok(Next::Settled) };
        let Some(spec) = &job.spec else { return Ok(Next::Settled) };
        if is_managed_elsewhere(spec) {
            let is_over = is_finished(&job);
            let said = explain::elsewhere(spec).filter(|_| !is_over);
            let held = self.explanations.tell(&self.events, &*job, said, self.clock.now());
            return Ok(held.map_or(Next::Settled, Next::After));
        }
        if is_finished(&job) {
            self.forget(job_key);
            return Ok(Next::Settled);
        }
        let started = Instant::now();
        let observed = self.observe(job_key, &job)?;
        if !self.is_known(job_key, &observed) {
            return self.get_to_know(key, job_key, &observed).await;
        }
        let plan = plan::plan(&observed);
        let applied = self.apply(job_key, &job, &plan).await;
        self.metrics.synced(spec, &plan, applied.is_ok(), started.elapsed());
        applied?;
        // An object may be gone before the cache saw it; then nobody else would wake the Job.
        let shown = self.pod_control.writes.wait(key);
        let said = explain::explain(&plan);
        let held = self.explanations.tell(&self.events, &*job, said, self.clock.now());
        let next = shown.into_iter().chain(plan.wait).chain(held).min();
        Ok(next.map_or(Next::Settled, Next::After))
    }

    fn observe(&self, key: &ObjectKey, job: &Arc<Job>) -> Result<Observed, Error> {
        let selector =
            job.pod_selector().map_err(|source| Error::Selector { job: key.clone(), source })?;
        let uid = owners::uid(&job.metadata);
        let candidates = workload::candidates(&self.pods, uid, &key.namespace, &selector);
        let record = self.records().get(key).copied().unwrap_or_default();
        Ok(Observed { job: job.clone(), selector, candidates, record, now: self.clock.now() })
    }

    /// The cache of Jobs may be behind that of pods: the server has the last word.
    async fn look_at_stray(&self, key: &ObjectKey) -> Result<Next, Error> {
        let Some(pod) = self.pods.get(key).filter(|it| is_tracked(it)) else {
            return Ok(Next::Settled);
        };
        if let Some(reference) = pod.controller() {
            if reference.kind != "Job" || !reference.api_version.starts_with("batch/") {
                return Ok(Next::Settled);
            }
            let live = self.jobs_api.get(&key.namespace, &reference.name).await.unless_gone();
            let job_key = ObjectKey::new(&key.namespace, reference.name.clone());
            let live = live.map_err(Failed::to::<Job>("look for", &job_key))?;
            let counts = |it: &Job| {
                let is_elsewhere = it.spec.as_ref().is_some_and(is_managed_elsewhere);
                owners::uid(&it.metadata) == reference.uid && (is_elsewhere || !is_finished(it))
            };
            if live.is_some_and(|it| counts(&it)) {
                return Ok(Next::Settled);
            }
        }
        self.free(&pod).await?;
        Ok(Next::Settled)
    }
}
