//! Carries out what was planned for a StatefulSet: all of its writes to pods and claims.

use api::apps::{ControllerRevision, StatefulSet};
use api::core::persistent_volume_claim::PersistentVolumeClaim;
use api::object::key_of;
use apimachinery::{ApiError, ObjectKey};
use reconcile::{EventType, Failed, is_namespace_gone};
use serde_json::json;

use super::identity::{self, POD_INDEX, POD_NAME};
use super::plan::{From, Observed, Plan, Task, Then, Wait};
use super::{Error, StatefulSets, claims};
use crate::{history, owners, pod_control};

/// The two templates that pods are made from.
#[derive(Clone)]
pub(super) struct Sources {
    pub current: std::sync::Arc<ControllerRevision>,
    pub update: std::sync::Arc<ControllerRevision>,
}

impl Sources {
    pub(super) fn of(observed: &Observed<'_>) -> Self {
        Self { current: observed.current.clone(), update: observed.update.clone() }
    }

    fn of_pod(&self, from: From) -> &ControllerRevision {
        match from {
            From::Current => &self.current,
            From::Update => &self.update,
        }
    }
}

impl StatefulSets {
    /// Ordered sets stop at the first failure, others after the batch that has one.
    pub(super) async fn apply(
        &self,
        key: &ObjectKey,
        set: &StatefulSet,
        sources: &Sources,
        plan: &Plan,
    ) -> Result<(), Error> {
        self.tell_waits(set, &plan.waits);
        if plan.is_parallel {
            let work = |it| self.work(key, set, sources, it);
            let done = pod_control::in_batches(&plan.tasks, work).await;
            return done.failed.into_iter().next().map_or(Ok(()), Err);
        }
        for task in &plan.tasks {
            self.work(key, set, sources, task).await?;
        }
        Ok(())
    }

    fn tell_waits(&self, set: &StatefulSet, waits: &[Wait]) {
        for wait in waits {
            match wait {
                Wait::ClaimEnding { pod, claim } => {
                    let why = format!("pvc {claim} is being deleted");
                    self.pod_control.tell_failed(set, "Create", pod, &why);
                }
                Wait::Taken { pod, by } => {
                    let message = format!("Pod {pod} exists and belongs to {by}");
                    self.warn(set, "ConflictingController", message);
                }
                _ => {}
            }
        }
    }

    fn warn(&self, set: &StatefulSet, reason: &str, message: String) {
        self.pod_control.events.event(set, EventType::Warning, reason, message);
    }

    async fn work(
        &self,
        key: &ObjectKey,
        set: &StatefulSet,
        sources: &Sources,
        task: &Task,
    ) -> Result<(), Error> {
        for write in &task.claims {
            if !self.write_claim(key, set, task, write).await? {
                return Ok(());
            }
        }
        match &task.then {
            Then::Nothing => Ok(()),
            Then::Create(ordinal, from) => {
                self.create(key, set, *ordinal, sources.of_pod(*from)).await
            }
            Then::Delete(pod) => Ok(self.pod_control.delete(key, set, pod).await?),
            Then::Relabel(pod) => {
                let name = &pod.meta.key.name;
                let ordinal = identity::split(name).map_or(0, |(_, ordinal)| ordinal);
                let labels = json!({POD_NAME: name, POD_INDEX: ordinal.to_string()});
                let labeled = self.pod_control.set_labels(key, pod, labels).await;
                match &labeled {
                    Ok(()) => self.pod_control.tell_done(set, "Update", name),
                    Err(err) => self.pod_control.tell_failed(set, "Update", name, err.cause()),
                }
                Ok(labeled?)
            }
        }
    }

    async fn create(
        &self,
        key: &ObjectKey,
        set: &StatefulSet,
        ordinal: i64,
        revision: &ControllerRevision,
    ) -> Result<(), Error> {
        let name = owners::name(&revision.metadata);
        let Some(template) = history::template(revision) else {
            return Err(Error::Template { revision: key_of(&revision.metadata) });
        };
        let pod = identity::pod(set, ordinal, &template, name);
        match self.pod_control.create(key, set, pod).await {
            Err(err) if is_namespace_gone(&err) => Ok(()),
            created => Ok(created.map_err(Failed::to::<StatefulSet>("create a pod of", key))?),
        }
    }

    /// Whether to go on with the pod.
    async fn write_claim(
        &self,
        key: &ObjectKey,
        set: &StatefulSet,
        task: &Task,
        write: &claims::Write,
    ) -> Result<bool, Error> {
        let (claim, written) = match write {
            claims::Write::Create(claim) => {
                (claim, self.claims_api.create((**claim).clone()).await)
            }
            claims::Write::Update { claim, is_foreign } => {
                let name = owners::name(&claim.metadata);
                if *is_foreign {
                    let message = format!(
                        "PersistentVolumeClaim {name} has a conflicting OwnerReference that acts \
                         as a manging controller, the retention policy is ignored for this claim"
                    );
                    self.warn(set, "ConflictingController", message);
                }
                (claim, self.claims_api.update((**claim).clone()).await)
            }
        };
        let is_new = matches!(write, claims::Write::Create(_));
        let name = owners::name(&claim.metadata);
        match written {
            Ok(written) => {
                self.claim_writes.wrote(key, written.meta());
                if is_new {
                    let set_name = owners::name(&set.metadata);
                    let message = format!(
                        "Create Claim {name} Pod {} in StatefulSet {set_name} success",
                        task.pod
                    );
                    let events = &self.pod_control.events;
                    events.event(set, EventType::Normal, "SuccessfulCreate", message);
                }
                Ok(true)
            }
            Err(err) if is_namespace_gone(&err) => Ok(false),
            Err(err) => {
                self.tell_claim_failed(set, task, name, is_new, &err);
                let action = if is_new { "create" } else { "set the owners of" };
                let claim = key_of(&claim.metadata);
                Err(Failed::to::<PersistentVolumeClaim>(action, &claim)(err).into())
            }
        }
    }

    fn tell_claim_failed(
        &self,
        set: &StatefulSet,
        task: &Task,
        claim: &str,
        is_new: bool,
        err: &ApiError,
    ) {
        let pod = &task.pod;
        if !is_new {
            let why = format!("could not update claim {claim} for delete policy ownerRefs: {err}");
            self.pod_control.tell_failed(set, "Update", pod, &why);
            return;
        }
        if err.is_already_exists() {
            return;
        }
        let name = owners::name(&set.metadata);
        let message =
            format!("Create Claim {claim} for Pod {pod} in StatefulSet {name} failed error: {err}");
        self.warn(set, "FailedCreate", message);
        let why = format!("failed to create PVC {claim}: {err}");
        self.pod_control.tell_failed(set, "Create", pod, &why);
    }
}
