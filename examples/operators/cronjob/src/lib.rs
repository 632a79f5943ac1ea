//! An operator: starts Jobs on schedules, as CronJobs of its own kind ask for, converts between the
//! versions of that kind, and is asked about what is written of it.
//!
//! The same way as every controller goes: informers put keys into a queue, a reconciler takes one,
//! observes, plans and applies.

mod objects;
mod schedule;

mod admission;
mod conversion;
mod manifests;
mod plan;

mod webhooks;

use std::time::Duration;

use api::{Dynamic, View as _};
use apimachinery::{ApiError, ObjectKey};
use client::{Client, DeleteOptions, DynamicApi, PatchKind, Propagation};
use informer::{Factory, Indexer};
use k8s_openapi::api::core::v1::ObjectReference;
use lifecycle::Tasks;
use reconcile::{Controller, EventRecorder, EventType, Next, Reconciler};
use serde_json::json;
use stdx::World;

pub use manifests::{Place, manifests};
use objects::{CronJob, GROUP, Job, KIND};
use plan::{Action, Observed};
pub use webhooks::{serve, tls};

/// What the server's audit log and managedFields call this operator.
pub const NAME: &str = "cronjob-operator";

const WORKERS: usize = 2;
/// Jobs by the uid of the CronJob that they belong to.
const OWNER: &str = "owner";

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("start a job of cronjob {cron_job}")]
    Start {
        cron_job: ObjectKey,
        #[source]
        source: ApiError,
    },
    #[error("read the job template of cronjob {cron_job}")]
    Template {
        cron_job: ObjectKey,
        #[source]
        source: serde_json::Error,
    },
    #[error("delete job {job}")]
    Delete {
        job: ObjectKey,
        #[source]
        source: ApiError,
    },
    #[error("report on cronjob {cron_job}")]
    Report {
        cron_job: ObjectKey,
        #[source]
        source: ApiError,
    },
}

struct CronJobs {
    cron_jobs: Indexer<CronJob>,
    jobs: Indexer<Job>,
    cron_jobs_api: DynamicApi,
    jobs_api: DynamicApi,
    events: EventRecorder,
    world: World,
}

/// Follows CronJobs and their Jobs until the tasks are shut down.
pub fn start(client: &Client, world: &World, tasks: &Tasks) {
    let factory = Factory::new(client.clone(), world.clone(), tasks);
    let mut controller = Controller::new(NAME, tasks, &factory);
    let by_owner = |job: &Job| job.owner().map(|(_, uid)| uid.to_owned()).into_iter().collect();
    let reconciler = CronJobs {
        cron_jobs: controller.cache(),
        jobs: controller.indexed_cache(&[(OWNER, by_owner)]),
        cron_jobs_api: client.dynamic(CronJob::resource()),
        jobs_api: client.dynamic(Job::resource()),
        events: EventRecorder::new(tasks, client.clone(), world.clone(), NAME),
        world: world.clone(),
    };
    controller
        .watches(|it: &CronJob| [it.meta.key.clone()])
        .watches(|it: &Job| it.owner().map(|(key, _)| key))
        .workers(WORKERS)
        .run(reconciler);
    factory.start();
}

impl Reconciler for CronJobs {
    type Key = ObjectKey;
    type Error = Error;

    async fn reconcile(&self, key: &ObjectKey) -> Result<Next, Error> {
        let Some(cron_job) = self.cron_jobs.get(key) else { return Ok(Next::Settled) };
        let jobs = self.jobs.by_index(OWNER, &cron_job.meta.uid);
        let now = self.world.clock.now();
        let plan = plan::plan(&Observed { cron_job: &cron_job, jobs: &jobs, now });
        for action in plan.actions {
            self.apply(&cron_job, action).await?;
        }
        let wait = plan.wait.map(|it| Duration::try_from(it).unwrap_or(Duration::ZERO));
        Ok(wait.map_or(Next::Settled, Next::After))
    }
}

impl CronJobs {
    async fn apply(&self, cron_job: &CronJob, action: Action) -> Result<(), Error> {
        let key = &cron_job.meta.key;
        match action {
            Action::Start(job) => {
                let job = Dynamic::from_value(job)
                    .map_err(|source| Error::Template { cron_job: key.clone(), source })?;
                match self.jobs_api.create(job).await {
                    // Its name says its time: it was started before, and the cache is late.
                    Err(err) if err.is_already_exists() => {}
                    Err(source) => {
                        self.say(cron_job, EventType::Warning, "FailedStart", source.to_string());
                        return Err(Error::Start { cron_job: key.clone(), source });
                    }
                    Ok(_) => {}
                }
            }
            Action::Stop(job) | Action::Forget(job) => self.delete(job).await?,
            Action::Report(status) => {
                let body = json!({ "status": status }).to_string().into();
                let (namespace, name) = (&key.namespace, &key.name);
                let kind = PatchKind::Merge;
                let told = self.cron_jobs_api.patch_status(namespace, name, kind, body).await;
                told.map_err(|source| Error::Report { cron_job: key.clone(), source })?;
            }
            Action::Say(is_warning, reason, message) => {
                let kind = if is_warning { EventType::Warning } else { EventType::Normal };
                self.say(cron_job, kind, reason, message);
            }
        }
        Ok(())
    }

    /// With its pods. One that is gone is as good.
    async fn delete(&self, job: ObjectKey) -> Result<(), Error> {
        let options = DeleteOptions {
            propagation: Some(Propagation::Background),
            ..DeleteOptions::default()
        };
        match self.jobs_api.delete(&job.namespace, &job.name, options).await {
            Err(err) if err.is_not_found() => Ok(()),
            Err(source) => Err(Error::Delete { job, source }),
            Ok(()) => Ok(()),
        }
    }

    fn say(&self, about: &CronJob, kind: EventType, reason: &str, message: String) {
        let reference = ObjectReference {
            api_version: Some(format!("{GROUP}/v1")),
            kind: Some(KIND.to_owned()),
            namespace: Some(about.meta.key.namespace.clone()),
            name: Some(about.meta.key.name.clone()),
            uid: Some(about.meta.uid.clone()),
            ..ObjectReference::default()
        };
        self.events.event_about(reference, kind, reason, message);
    }
}
