//! CronJobs: Jobs that start by the clock. Sleeps until the next time of each schedule.
//!
//! The name of a Job is made of its time, so that nobody starts it twice; a reconcile plans when
//! its caches show all that earlier ones wrote.

mod garbage;
mod plan;
#[cfg(test)]
mod tests;
mod times;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use api::Identified as _;
use api::batch::cron_job::CronJob;
use api::batch::job::Job;
use apimachinery::{ApiError, ObjectKey};
use client::{Api, DeleteOptions, Preconditions, Propagation};
use informer::Indexer;
use jiff::Timestamp;
use k8s_openapi::api::batch::v1::CronJobStatus;
use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use reconcile::{
    Change, EventRecorder, EventType, Failed, Next, Outcome as _, OwnWrites, PATIENCE, Reconciler,
    WorkQueue,
};
use stdx::SharedClock;
use telemetry::{Buckets, Description, Histogram, Stability, exponential};

pub(crate) use self::garbage::plan_any;
use self::plan::{Observed, Plan};
use crate::explanations::Explanations;
use crate::flags::at_least_one;
use crate::owners::BY_CONTROLLER;
use crate::{Descriptor, Flags, Startup, owners};

pub(crate) const DESCRIPTOR: Descriptor = Descriptor {
    name: "cronjob-controller",
    aliases: &["cronjob"],
    identity: "cronjob-controller",
    is_on_by_default: true,
    flags: Flags::of::<Settings>(),
    start,
};

#[derive(clap::Args)]
#[group(skip)]
struct Settings {
    /// CronJobs that are worked on at once
    #[arg(long, value_name = "N", default_value = "5", value_parser = at_least_one)]
    concurrent_cron_job_syncs: usize,
}

const SKEW: Description<0> = Description {
    name: "cronjob_controller_job_creation_skew_duration_seconds",
    stability: Stability::Stable,
    help: "Time between when a cronjob is scheduled to be run, and when the corresponding job is \
           created",
    labels: [],
};
const BUCKETS: Buckets = Buckets::seconds(&exponential::<10>(1.0, 2.0));

struct CronJobs {
    cron_jobs: Indexer<CronJob>,
    jobs: Indexer<Job>,
    cron_jobs_api: Api<CronJob>,
    jobs_api: Api<Job>,
    cron_job_writes: Arc<OwnWrites<CronJob>>,
    job_writes: Arc<OwnWrites<Job>>,
    explanations: Explanations,
    events: EventRecorder,
    clock: SharedClock,
    skew: Arc<Histogram>,
}

fn start(startup: &Startup<'_>) {
    let mut controller = startup.controller();
    let reconciler = CronJobs {
        cron_jobs: controller.cache(),
        jobs: controller.indexed_cache(&[(BY_CONTROLLER, owners::index_by_controller)]),
        cron_jobs_api: startup.client.api(),
        jobs_api: startup.client.api(),
        cron_job_writes: controller.own_writes(PATIENCE),
        job_writes: controller.own_writes(PATIENCE),
        // A reconcile tells what upstream tells each time, so none is made for this alone.
        explanations: Explanations::new(Duration::ZERO),
        events: startup.events(),
        clock: startup.world.clock.clone(),
        skew: startup.metrics.histogram(&SKEW, BUCKETS),
    };
    let clock = startup.world.clock.clone();
    controller
        .follows(move |change, queue| follow(change, clock.now(), queue))
        .owns::<CronJob, Job>()
        .workers(startup.settings::<Settings>().concurrent_cron_job_syncs)
        .run(reconciler);
}

/// A schedule that was changed starts with its next time: what it would have started before it was
/// asked to is not missed.
fn follow(change: Change<'_, CronJob>, now: Timestamp, queue: &WorkQueue) {
    let Some(cron_job) = change.states().next() else { return };
    let key = cron_job.key();
    if let Change::Updated { before, after } = change
        && (&before.spec.schedule, &before.spec.time_zone)
            != (&after.spec.schedule, &after.spec.time_zone)
        && let Some(wait) = plan::wait_for_next(after, now)
    {
        queue.add_after(key, wait);
    } else {
        queue.add(key);
    }
}

impl Reconciler for CronJobs {
    type Key = ObjectKey;
    type Error = Failed;

    async fn reconcile(&self, key: &ObjectKey) -> Result<Next, Failed> {
        if self.cron_jobs.get(key).is_none() {
            self.cron_job_writes.forget(key);
            self.job_writes.forget(key);
            self.explanations.forget(key);
            return Ok(Next::Settled);
        }
        let wait = self.cron_job_writes.wait(key).or_else(|| self.job_writes.wait(key));
        if let Some(wait) = wait {
            return Ok(Next::After(wait));
        }
        let Some(cron_job) = self.cron_jobs.get(key) else { return Ok(Next::Settled) };
        let jobs = self.jobs.by_index(BY_CONTROLLER, owners::uid(&cron_job.metadata));
        let missing = self.missing(&cron_job, &jobs).await?;
        let now = self.clock.now();
        let observed = Observed { cron_job: cron_job.clone(), jobs, missing, now };
        let plan = plan::plan(&observed);
        self.apply(key, &cron_job, &plan).await?;
        let said = plan::explain(&observed, &plan);
        self.explanations.tell(&self.events, &*cron_job, said, now);
        // An object may be gone before the cache saw it; then nobody else would wake us.
        let shown = self.job_writes.wait(key);
        Ok(shown.into_iter().chain(plan.wait).min().map_or(Next::Settled, Next::After))
    }
}

impl CronJobs {
    /// Of the Jobs that its status names, those that are gone. Whom the cache does not show as ours
    /// is looked for at the server.
    async fn missing(
        &self,
        cron_job: &CronJob,
        jobs: &[Arc<Job>],
    ) -> Result<BTreeSet<String>, Failed> {
        let mut missing = BTreeSet::new();
        let active = cron_job.status.as_ref().and_then(|it| it.active.as_deref());
        for reference in active.unwrap_or_default() {
            let uid = reference.uid.clone().unwrap_or_default();
            if jobs.iter().any(|it| owners::uid(&it.metadata) == uid) {
                continue;
            }
            let name = reference.name.as_deref().unwrap_or_default();
            let key = ObjectKey::new(owners::namespace(&cron_job.metadata), name);
            let live = self.jobs_api.get(&key.namespace, name).await.unless_gone();
            let live = live.map_err(Failed::to::<Job>("look for", &key))?;
            if live.is_none_or(|it| owners::uid(&it.metadata) != uid) {
                missing.insert(uid);
            }
        }
        Ok(missing)
    }

    /// The status of what was started is written before anything old is deleted: a Job that was
    /// deleted could be started for the same time again.
    async fn apply(&self, key: &ObjectKey, cron_job: &CronJob, plan: &Plan) -> Result<(), Failed> {
        for event in &plan.events {
            self.events.event(cron_job, event.kind, event.reason, event.message.clone());
        }
        let mut status = plan.status.clone();
        let started = self.replace_and_start(key, cron_job, plan, &mut status).await;
        if cron_job.status.clone().unwrap_or_default() != status {
            let mut changed = cron_job.clone();
            changed.status = Some(status);
            let written = self.cron_jobs_api.update_status(changed).await.unless_gone();
            let failed = Failed::to::<CronJob>("update the status of", key);
            if let Some(written) = written.map_err(failed)? {
                self.cron_job_writes.wrote(key, written.meta());
            }
        }
        started?;
        for job in &plan.forget {
            self.delete(key, cron_job, job).await?;
        }
        Ok(())
    }

    async fn replace_and_start(
        &self,
        key: &ObjectKey,
        cron_job: &CronJob,
        plan: &Plan,
        status: &mut CronJobStatus,
    ) -> Result<(), Failed> {
        let Some(time) = plan.start else { return Ok(()) };
        for (position, reference) in plan.replace.iter().enumerate() {
            if let Err(failed) = self.replace(key, cron_job, reference).await {
                status.active = Some(plan.replace[position..].to_vec());
                return Err(failed);
            }
        }
        let Some(job) = self.create(key, cron_job, time).await? else { return Ok(()) };
        status.active.get_or_insert_default().push(reference(&job));
        status.last_schedule_time = Some(Time(time));
        Ok(())
    }

    async fn replace(
        &self,
        key: &ObjectKey,
        cron_job: &CronJob,
        reference: &ObjectReference,
    ) -> Result<(), Failed> {
        let name = reference.name.as_deref().unwrap_or_default();
        let job_key = ObjectKey::new(&key.namespace, name);
        let job = self.jobs_api.get(&key.namespace, name).await.unless_gone();
        let job = job.map_err(|err| {
            let message = format!("Get job: {err}");
            self.events.event(cron_job, EventType::Warning, "FailedGet", message);
            Failed::to::<Job>("look for", &job_key)(err)
        })?;
        match job.filter(|it| it.metadata.uid == reference.uid) {
            Some(job) => self.delete(key, cron_job, &job).await,
            None => Ok(()),
        }
    }

    /// The Job of a time: new, or ours from before a crash. Absent if it is somebody else's, or the
    /// namespace is ending.
    async fn create(
        &self,
        key: &ObjectKey,
        cron_job: &CronJob,
        time: Timestamp,
    ) -> Result<Option<Arc<Job>>, Failed> {
        let job = plan::job(cron_job, time);
        let job_key = job.key();
        match self.jobs_api.create(job).await {
            Ok(written) => {
                self.job_writes.wrote(key, written.meta());
                let late = Duration::try_from(self.clock.now().duration_since(time));
                self.skew.observe(late.unwrap_or_default());
                let message = format!("Created job {}", job_key.name);
                self.events.event(cron_job, EventType::Normal, "SuccessfulCreate", message);
                written.object().map(Some).map_err(Failed::to::<Job>("read", &job_key))
            }
            Err(err) if err.is_already_exists() => self.find(cron_job, &job_key).await,
            Err(err) => {
                if !reconcile::is_namespace_ending(&err) {
                    let message = format!("Error creating job: {err}");
                    self.events.event(cron_job, EventType::Warning, "FailedCreate", message);
                }
                Err(Failed::to::<Job>("create", &job_key)(err))
            }
        }
    }

    async fn find(&self, cron_job: &CronJob, key: &ObjectKey) -> Result<Option<Arc<Job>>, Failed> {
        let job = self.jobs_api.get(&key.namespace, &key.name).await.unless_gone();
        let job = job.map_err(Failed::to::<Job>("look for", key))?;
        let uid = owners::uid(&cron_job.metadata);
        Ok(job.filter(|it| it.controller().is_some_and(|it| it.uid == uid)))
    }

    async fn delete(&self, key: &ObjectKey, cron_job: &CronJob, job: &Job) -> Result<(), Failed> {
        let job_key = job.key();
        let options = DeleteOptions {
            propagation: Some(Propagation::Background),
            preconditions: Preconditions { uid: job.metadata.uid.clone(), resource_version: None },
            ..DeleteOptions::default()
        };
        let deleted = self.jobs_api.delete(&job_key.namespace, &job_key.name, options).await;
        let failed = |err: ApiError| {
            let message = format!("Deleted job: {err}");
            self.events.event(cron_job, EventType::Warning, "FailedDelete", message);
            Failed::to::<Job>("delete", &job_key)(err)
        };
        if deleted.unless_replaced().map_err(failed)?.is_some() {
            self.job_writes.deleted(key, job);
            let message = format!("Deleted job {}", job_key.name);
            self.events.event(cron_job, EventType::Normal, "SuccessfulDelete", message);
        }
        Ok(())
    }
}

fn reference(job: &Job) -> ObjectReference {
    ObjectReference {
        api_version: Some("batch/v1".to_owned()),
        kind: Some("Job".to_owned()),
        namespace: job.metadata.namespace.clone(),
        name: job.metadata.name.clone(),
        uid: job.metadata.uid.clone(),
        resource_version: job.metadata.resource_version.clone(),
        ..ObjectReference::default()
    }
}
