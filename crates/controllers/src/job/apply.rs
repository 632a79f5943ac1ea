//! Carries out what was planned for a Job: all of its writes.

use std::sync::Arc;

use api::Identified as _;
use api::batch::job::{Job, TRACKING_FINALIZER};
use api::core::pod::{Pod, PodView};
use apimachinery::ObjectKey;
use client::PatchKind;
use futures_util::future::join_all;
use k8s_openapi::api::batch::v1::JobStatus;
use reconcile::{EventType, Failed, Outcome as _, is_namespace_ending};
use serde_json::json;

use super::plan::Plan;
use super::staffing::Creation;
use super::status::Note;
use super::terms::is_tracked;
use super::{Jobs, Key, template};
use crate::{owners, pod_control};

/// What did not go as planned.
#[derive(Default)]
struct Shortfall {
    not_created: usize,
    not_gone: Vec<Arc<PodView>>,
    failed: Option<Failed>,
}

impl Shortfall {
    /// Makes a planned status true.
    fn correct(&self, status: &mut JobStatus) {
        let number = |count: usize| i32::try_from(count).unwrap_or(i32::MAX);
        let stay = number(self.not_gone.len());
        let ready = number(self.not_gone.iter().filter(|it| it.is_ready).count());
        let active = status.active.unwrap_or(0) - number(self.not_created) + stay;
        status.active = Some(active).filter(|it| *it > 0);
        status.ready = status.ready.map(|it| it + ready);
        status.terminating = status.terminating.map(|it| it - stay);
    }
}

impl Jobs {
    /// What could not be done in the end is an error, after all that could.
    pub(super) async fn apply(
        &self,
        key: &ObjectKey,
        job: &Job,
        plan: &Plan,
    ) -> Result<(), Failed> {
        if !plan.adopt.is_empty() || !plan.release.is_empty() {
            return self.claim(key, job, plan).await;
        }
        let mut shortfall = self.create(key, job, plan).await;
        self.let_go(key, job, &plan.let_go, &mut shortfall).await;
        if let Some(mut status) = plan.status.clone() {
            shortfall.correct(&mut status);
            self.write_status(key, job, plan, status).await?;
        }
        self.commit(key, plan.record);
        let stopped = join_all(plan.stop.iter().map(|it| self.delete(key, job, it))).await;
        let untracked = join_all(plan.untrack.iter().map(|it| self.untrack(key, it))).await;
        let failed = stopped.into_iter().chain(untracked).find_map(Result::err);
        shortfall.failed.or(failed).map_or(Ok(()), Err)
    }

    async fn claim(&self, key: &ObjectKey, job: &Job, plan: &Plan) -> Result<(), Failed> {
        if !plan.adopt.is_empty() && !owners::is_still_there(&self.jobs_api, key, job).await? {
            return Ok(());
        }
        let reference = owners::controller_reference(job);
        for pod in &plan.adopt {
            let body = json!({"metadata": {
                "uid": pod.uid(),
                "ownerReferences": [reference],
                "finalizers": [TRACKING_FINALIZER],
            }});
            self.patch("adopt", key, pod, body).await?;
        }
        for pod in &plan.release {
            let body = json!({"metadata": {
                "uid": pod.uid(),
                "ownerReferences": [{"$patch": "delete", "uid": reference.uid}],
                "$deleteFromPrimitiveList/finalizers": [TRACKING_FINALIZER],
            }});
            self.patch("release", key, pod, body).await?;
        }
        Ok(())
    }

    async fn patch(
        &self,
        action: &'static str,
        key: &ObjectKey,
        pod: &PodView,
        body: serde_json::Value,
    ) -> Result<(), Failed> {
        let key = Key::Job(key.clone());
        self.pod_control.patch(action, &key, pod, body.to_string().into()).await
    }

    /// It is counted: the pod may go.
    async fn untrack(&self, key: &ObjectKey, pod: &PodView) -> Result<(), Failed> {
        let body = json!({"metadata": {
            "uid": pod.uid(),
            "$deleteFromPrimitiveList/finalizers": [TRACKING_FINALIZER],
        }});
        self.patch("let go of", key, pod, body).await
    }

    /// It will not be counted. Refused if the pod has changed since: it may have ended, and then it
    /// counts.
    async fn give_up(&self, key: &ObjectKey, pod: &PodView) -> Result<(), Failed> {
        let body = json!({"metadata": {
            "uid": pod.uid(),
            "resourceVersion": pod.meta.resource_version.to_string(),
            "$deleteFromPrimitiveList/finalizers": [TRACKING_FINALIZER],
        }});
        let (pod_key, body, kind) = (pod.key(), body.to_string().into(), PatchKind::Strategic);
        let patched =
            self.pod_control.api.patch(&pod_key.namespace, &pod_key.name, kind, body).await;
        let patched = patched.unless_gone().map_err(Failed::to::<Pod>("let go of", &pod_key))?;
        if let Some(written) = patched {
            self.pod_control.writes.changed(&Key::Job(key.clone()), pod, written.meta());
        }
        Ok(())
    }

    async fn create(&self, key: &ObjectKey, job: &Job, plan: &Plan) -> Shortfall {
        let Some(spec) = job.spec.as_ref().filter(|_| !plan.create.is_empty()) else {
            return Shortfall::default();
        };
        let owner = Key::Job(key.clone());
        let create = |it: &Creation| {
            self.pod_control.create(&owner, job, template::pod(job, &spec.template, it))
        };
        let created = pod_control::in_batches(&plan.create, create).await;
        self.metrics.created(spec, plan, created.done, created.failed.len());
        let not_created = created.failed.len() + created.left;
        let failed = created.failed.into_iter().find(|it| !is_namespace_ending(it));
        let failed = failed.map(Failed::to::<Job>("create a pod of", key));
        Shortfall { not_created, failed, ..Shortfall::default() }
    }

    /// The finalizer first: once it is gone, the deletion cannot be taken for a failure.
    async fn let_go(
        &self,
        key: &ObjectKey,
        job: &Job,
        pods: &[Arc<PodView>],
        shortfall: &mut Shortfall,
    ) {
        let one = async |pod: &PodView| {
            if is_tracked(pod) {
                self.give_up(key, pod).await?;
            }
            self.delete(key, job, pod).await
        };
        let outcomes = join_all(pods.iter().map(|it| one(it))).await;
        for (pod, outcome) in pods.iter().zip(outcomes) {
            if let Err(failed) = outcome {
                shortfall.not_gone.push(pod.clone());
                shortfall.failed.get_or_insert(failed);
            }
        }
    }

    async fn delete(&self, key: &ObjectKey, job: &Job, pod: &PodView) -> Result<(), Failed> {
        self.pod_control.delete(&Key::Job(key.clone()), job, pod).await
    }

    async fn write_status(
        &self,
        key: &ObjectKey,
        job: &Job,
        plan: &Plan,
        status: JobStatus,
    ) -> Result<(), Failed> {
        if job.status.as_ref() == Some(&status) {
            return Ok(());
        }
        let (old, new) = (job.status.clone().unwrap_or_default(), status.clone());
        let mut changed = job.clone();
        changed.status = Some(status);
        let written = self.jobs_api.update_status(changed).await.unless_gone();
        let written = written.map_err(Failed::to::<Job>("update the status of", key))?;
        let Some(written) = written else { return Ok(()) };
        self.job_writes.wrote(&Key::Job(key.clone()), written.meta());
        if let Some(spec) = &job.spec {
            self.metrics.counted(spec, plan, &old, &new);
        }
        plan.notes.iter().for_each(|it| self.tell(job, it));
        Ok(())
    }

    fn tell(&self, job: &Job, note: &Note) {
        let normal = |reason, message: &str| {
            self.events.event(job, EventType::Normal, reason, message.to_owned());
        };
        let finished = |result, reason: &str| {
            job.spec.iter().for_each(|it| self.metrics.finished(it, result, reason));
        };
        match note {
            Note::Suspended => normal("Suspended", "Job suspended"),
            Note::Resumed => normal("Resumed", "Job resumed"),
            Note::Completed { reason, has_too_many } => {
                if *has_too_many {
                    let message = "Too many succeeded pods running after completion count reached";
                    let reason = "TooManySucceededPods";
                    self.events.event(job, EventType::Warning, reason, message.to_owned());
                }
                normal("Completed", "Job completed");
                finished("succeeded", reason);
            }
            Note::Failed { reason, message } => {
                self.events.event(job, EventType::Warning, reason, message.clone());
                finished("failed", reason);
            }
        }
    }

    /// Takes the finalizer off a pod that no Job counts any more.
    pub(super) async fn free(&self, pod: &PodView) -> Result<(), Failed> {
        let key = pod.key();
        let body = json!({"metadata": {
            "uid": pod.uid(),
            "$deleteFromPrimitiveList/finalizers": [TRACKING_FINALIZER],
        }});
        let (body, kind) = (body.to_string().into(), PatchKind::Strategic);
        let patched = self.pod_control.api.patch(&key.namespace, &key.name, kind, body).await;
        patched.unless_replaced().map_err(Failed::to::<Pod>("let go of", &key))?;
        Ok(())
    }
}
