//! The status of a Deployment: counts, and the conditions that `kubectl rollout status` waits for.
//! Pure.

use std::time::Duration;

use api::apps::deployment::Deployment;
use api::apps::replica_set::ReplicaSet;
use jiff::Timestamp;
use k8s_openapi::api::apps::v1::{
    DeploymentCondition, DeploymentStatus, ReplicaSetCondition, ReplicaSetStatus,
};

use super::explain::explain;
use super::plan::{Action, Observed, wanted};
use super::rolling;
use crate::{conditions, owners, pods};

const AVAILABLE: &str = "Available";
const PROGRESSING: &str = "Progressing";
const FAILURE: &str = "ReplicaFailure";
/// A ReplicaSet, not one of its pods.
pub(crate) const NOT_CREATED: &str = "ReplicaSetCreateError";
/// What upstream takes for "no deadline" (the default of kinds older than apps/v1).
const NO_DEADLINE: i32 = i32::MAX;

pub(crate) struct Planned {
    pub status: DeploymentStatus,
    pub next: Option<Duration>,
}

pub(crate) fn plan(observed: &Observed, actions: &[Action]) -> Planned {
    let mut status = count(observed);
    let mut conditions = status.conditions.take().unwrap_or_default();
    set_available(observed, &status, &mut conditions);
    match deadline(&observed.deployment) {
        None => conditions::remove(&mut conditions, PROGRESSING),
        Some(deadline) => set_progressing(observed, actions, &status, deadline, &mut conditions),
    }
    set_failure(observed, &mut conditions);
    let next = next_look(observed, &conditions);
    let said = explain(observed, &status);
    status.conditions = conditions::waiting(Some(conditions), said, observed.now);
    Planned { status, next }
}

/// The counts, with the conditions as they are.
pub(crate) fn count(observed: &Observed) -> DeploymentStatus {
    let stored = observed.deployment.status.clone().unwrap_or_default();
    let sum = |field: fn(&ReplicaSetStatus) -> i32| -> i32 {
        rolling::sum(observed.all().filter_map(|it| it.status.as_ref()).map(field))
    };
    let replicas = sum(|it| it.replicas);
    let available = sum(|it| it.available_replicas.unwrap_or(0));
    let updated = observed.current.as_ref().and_then(|it| it.status.as_ref());
    DeploymentStatus {
        replicas: count_of(replicas),
        updated_replicas: count_of(updated.map_or(0, |it| it.replicas)),
        ready_replicas: count_of(sum(|it| it.ready_replicas.unwrap_or(0))),
        available_replicas: count_of(available),
        unavailable_replicas: count_of(replicas.saturating_sub(available).max(0)),
        terminating_replicas: Some(sum(|it| it.terminating_replicas.unwrap_or(0))),
        observed_generation: observed.deployment.metadata.generation,
        collision_count: stored.collision_count,
        conditions: stored.conditions,
    }
}

/// Counts of zero are left out, as clients know it from upstream.
fn count_of(number: i32) -> Option<i32> {
    Some(number).filter(|it| *it != 0)
}

/// Every pod is of the present template and available.
pub(crate) fn is_complete(deployment: &Deployment, status: &DeploymentStatus) -> bool {
    let total = count_of(wanted(deployment));
    status.updated_replicas == total
        && status.replicas == total
        && status.available_replicas == total
        && status.observed_generation >= deployment.metadata.generation
}

/// More pods of the present template, fewer of others, more ready or available than last time.
fn is_progressing(before: &DeploymentStatus, after: &DeploymentStatus) -> bool {
    let n = |it: Option<i32>| it.unwrap_or(0);
    let old = |it: &DeploymentStatus| n(it.replicas).saturating_sub(n(it.updated_replicas));
    n(after.updated_replicas) > n(before.updated_replicas)
        || old(after) < old(before)
        || n(after.ready_replicas) > n(before.ready_replicas)
        || n(after.available_replicas) > n(before.available_replicas)
}

fn deadline(deployment: &Deployment) -> Option<Duration> {
    let seconds = deployment.spec.as_ref()?.progress_deadline_seconds?;
    let seconds = Some(seconds).filter(|it| *it != NO_DEADLINE)?;
    Some(Duration::from_secs(u64::try_from(seconds).unwrap_or(0)))
}

fn set_available(
    observed: &Observed,
    status: &DeploymentStatus,
    conditions: &mut Vec<DeploymentCondition>,
) {
    let deployment = &observed.deployment;
    let minimum = wanted(deployment) - rolling::bounds(deployment).unavailable;
    let available = status.available_replicas.unwrap_or(0);
    let condition = if available >= minimum {
        condition(observed.now, AVAILABLE, "True", "MinimumReplicasAvailable")
            .saying("Deployment has minimum availability.")
    } else {
        condition(observed.now, AVAILABLE, "False", "MinimumReplicasUnavailable")
            .saying("Deployment does not have minimum availability.")
    };
    conditions::set(conditions, condition);
}

fn set_progressing(
    observed: &Observed,
    actions: &[Action],
    status: &DeploymentStatus,
    deadline: Duration,
    conditions: &mut Vec<DeploymentCondition>,
) {
    let now = observed.now;
    let stored = conditions::find(conditions, PROGRESSING).cloned();
    let reason = stored.as_ref().and_then(|it| it.reason.as_deref()).unwrap_or_default();
    let set =
        |conditions: &mut Vec<DeploymentCondition>, status: &str, reason: &str, text: String| {
            conditions::set(conditions, condition(now, PROGRESSING, status, reason).saying(text));
        };
    if observed.is_paused() {
        let text = "Deployment is paused".to_owned();
        return set(conditions, "Unknown", "DeploymentPaused", text);
    }
    if reason == "DeploymentPaused" {
        let text = "Deployment is resumed".to_owned();
        return set(conditions, "Unknown", "DeploymentResumed", text);
    }
    if let Some(Action::Create(created)) = actions.first() {
        let text = format!("Created new replica set {:?}", owners::name(&created.metadata));
        return set(conditions, "True", "NewReplicaSetCreated", text);
    }
    let Some(current) = &observed.current else {
        return;
    };
    let name = owners::name(&current.metadata);
    let is_done = status.replicas == status.updated_replicas && reason == "NewReplicaSetAvailable";
    if is_done {
        return;
    }
    let before = observed.deployment.status.clone().unwrap_or_default();
    if is_complete(&observed.deployment, status) {
        let text = format!("ReplicaSet {name:?} has successfully progressed.");
        set(conditions, "True", "NewReplicaSetAvailable", text);
    } else if stored.is_none() {
        let text = format!("Found new replica set {name:?}");
        set(conditions, "True", "FoundNewReplicaSet", text);
    } else if is_progressing(&before, status) {
        let mut progress = condition(now, PROGRESSING, "True", "ReplicaSetUpdated")
            .saying(format!("ReplicaSet {name:?} is progressing."));
        // The update time moves with every step: the deadline counts from the last one.
        if let Some(stored) = stored.filter(|it| it.status == "True") {
            progress.last_transition_time = stored.last_transition_time;
        }
        conditions::remove(conditions, PROGRESSING);
        conditions.push(progress);
    } else if is_timed_out(stored.as_ref(), deadline, now) {
        let text = format!("ReplicaSet {name:?} has timed out progressing.");
        set(conditions, "False", "ProgressDeadlineExceeded", text);
    }
}

fn is_timed_out(stored: Option<&DeploymentCondition>, deadline: Duration, now: Timestamp) -> bool {
    let Some(stored) = stored else {
        return false;
    };
    match stored.reason.as_deref() {
        Some("NewReplicaSetAvailable") => false,
        Some("ProgressDeadlineExceeded") => true,
        _ => stored
            .last_update_time
            .as_ref()
            .is_some_and(|it| pods::remaining(it.0, deadline, now).is_zero()),
    }
}

/// The status after a ReplicaSet could not be created, when it says something new and there is a
/// deadline that makes progress worth a condition.
pub(crate) fn not_created(
    deployment: &Deployment,
    message: &str,
    now: Timestamp,
) -> Option<DeploymentStatus> {
    deadline(deployment)?;
    let stored = deployment.status.clone().unwrap_or_default();
    let mut status = stored.clone();
    let conditions = status.conditions.get_or_insert_default();
    let condition = condition(now, PROGRESSING, "False", NOT_CREATED).saying(message);
    conditions::set(conditions, condition);
    (status != stored).then_some(status)
}

/// The status of a Deployment that was looked at and left alone, when that is news.
pub(crate) fn seen(deployment: &Deployment) -> Option<DeploymentStatus> {
    let mut status = deployment.status.clone().unwrap_or_default();
    if status.observed_generation >= deployment.metadata.generation {
        return None;
    }
    status.observed_generation = deployment.metadata.generation;
    Some(status)
}

/// The status after the name of a ReplicaSet was found taken: the next attempt has another hash.
pub(crate) fn collided(deployment: &Deployment) -> DeploymentStatus {
    let mut status = deployment.status.clone().unwrap_or_default();
    status.collision_count = Some(status.collision_count.unwrap_or(0).saturating_add(1));
    status
}

/// Why a ReplicaSet cannot create pods.
pub(super) fn failure_of(replica_set: &ReplicaSet) -> Option<&ReplicaSetCondition> {
    let stored = replica_set.status.as_ref()?.conditions.as_deref()?;
    conditions::find(stored, FAILURE)
}

/// A ReplicaSet that cannot create pods speaks through the Deployment, the current one first.
fn set_failure(observed: &Observed, conditions: &mut Vec<DeploymentCondition>) {
    let failure = observed.current.iter().chain(&observed.old).find_map(|it| failure_of(it));
    match failure {
        None => conditions::remove(conditions, FAILURE),
        Some(failure) => conditions::set(
            conditions,
            DeploymentCondition {
                type_: FAILURE.to_owned(),
                status: failure.status.clone(),
                reason: failure.reason.clone(),
                message: failure.message.clone(),
                last_transition_time: failure.last_transition_time.clone(),
                last_update_time: failure.last_transition_time.clone(),
            },
        ),
    }
}

/// One second after the deadline, so that the clock has passed it.
fn next_look(observed: &Observed, conditions: &[DeploymentCondition]) -> Option<Duration> {
    let deadline = deadline(&observed.deployment).filter(|_| !observed.is_paused())?;
    let progress = conditions::find(conditions, PROGRESSING)?;
    let reason = progress.reason.as_deref().unwrap_or_default();
    if matches!(reason, "NewReplicaSetAvailable" | "ProgressDeadlineExceeded") {
        return None;
    }
    let since = progress.last_update_time.as_ref()?.0;
    let end = pods::remaining(since, deadline, observed.now);
    Some(end + Duration::from_secs(1))
}

fn condition(now: Timestamp, kind: &str, status: &str, reason: &str) -> DeploymentCondition {
    let now = conditions::time(now);
    DeploymentCondition {
        type_: kind.to_owned(),
        status: status.to_owned(),
        reason: Some(reason.to_owned()),
        message: None,
        last_transition_time: Some(now.clone()),
        last_update_time: Some(now),
    }
}

trait Saying {
    fn saying(self, message: impl Into<String>) -> Self;
}

impl Saying for DeploymentCondition {
    fn saying(mut self, message: impl Into<String>) -> Self {
        self.message = Some(message.into());
        self
    }
}
