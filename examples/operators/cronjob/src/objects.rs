//! What the operator keeps of the objects that it follows: see `api::View`.

use std::sync::Arc;

use api::{Meta, Stored, View};
use apimachinery::{GroupVersionResource, ObjectKey};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

pub(crate) const GROUP: &str = "batch.tutorial.xebec.dev";
pub(crate) const KIND: &str = "CronJob";
/// On a Job: the time that it was started for.
pub(crate) const SCHEDULED_AT: &str = "batch.tutorial.xebec.dev/scheduled-at";

/// A custom resource, in the version that is stored: this is all that its type is.
#[derive(Clone, Debug, Default)]
pub(crate) struct CronJob {
    pub(crate) meta: Arc<Meta>,
    pub(crate) created: Timestamp,
    pub(crate) spec: Spec,
    pub(crate) status: Status,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
pub(crate) enum ConcurrencyPolicy {
    #[default]
    Allow,
    Forbid,
    Replace,
}

/// Defaults are the definition's: what the server gives has them.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Spec {
    pub(crate) schedule: String,
    pub(crate) time_zone: Option<String>,
    pub(crate) starting_deadline_seconds: Option<i64>,
    pub(crate) concurrency_policy: ConcurrencyPolicy,
    pub(crate) suspend: bool,
    pub(crate) successful_jobs_history_limit: usize,
    pub(crate) failed_jobs_history_limit: usize,
    pub(crate) job_template: Value,
}

/// Absent times are written as null, which removes them in a merge patch.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Status {
    /// Sorted.
    pub(crate) active: Vec<String>,
    pub(crate) last_schedule_time: Option<Timestamp>,
    pub(crate) next_schedule_time: Option<Timestamp>,
}

#[derive(Deserialize)]
struct CronJobParts {
    metadata: Created,
    #[serde(default)]
    spec: Spec,
    #[serde(default)]
    status: Status,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Created {
    #[serde(default)]
    creation_timestamp: Timestamp,
}

impl View for CronJob {
    fn resource() -> GroupVersionResource {
        GroupVersionResource::new(GROUP, "v1", "cronjobs")
    }

    fn read(stored: &Stored) -> Result<Self, serde_json::Error> {
        let parts: CronJobParts = serde_json::from_slice(&stored.bytes)?;
        Ok(Self {
            meta: stored.meta.clone(),
            created: parts.metadata.creation_timestamp,
            spec: parts.spec,
            status: parts.status,
        })
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Outcome {
    #[default]
    GoesOn,
    Succeeded,
    Failed,
}

/// A Job that a CronJob of ours started, or somebody else's, of which nothing is kept.
#[derive(Clone, Debug, Default)]
pub(crate) struct Job {
    pub(crate) meta: Arc<Meta>,
    pub(crate) scheduled_at: Option<Timestamp>,
    pub(crate) outcome: Outcome,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct JobParts {
    metadata: Annotated,
    status: Conditions,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Annotated {
    annotations: std::collections::BTreeMap<String, String>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Conditions {
    conditions: Vec<Condition>,
}

#[derive(Deserialize)]
struct Condition {
    r#type: String,
    status: String,
}

impl View for Job {
    fn resource() -> GroupVersionResource {
        GroupVersionResource::new("batch", "v1", "jobs")
    }

    fn read(stored: &Stored) -> Result<Self, serde_json::Error> {
        let job = Self { meta: stored.meta.clone(), ..Self::default() };
        if job.owner().is_none() {
            return Ok(job);
        }
        let parts: JobParts = serde_json::from_slice(&stored.bytes)?;
        let is = |what: &str| {
            parts.status.conditions.iter().any(|it| it.r#type == what && it.status == "True")
        };
        let outcome = match (is("Complete"), is("Failed")) {
            (true, _) => Outcome::Succeeded,
            (_, true) => Outcome::Failed,
            (false, false) => Outcome::GoesOn,
        };
        let scheduled_at = parts.metadata.annotations.get(SCHEDULED_AT);
        Ok(Self { scheduled_at: scheduled_at.and_then(|it| it.parse().ok()), outcome, ..job })
    }
}

impl Job {
    /// The CronJob that it belongs to, and its uid.
    pub(crate) fn owner(&self) -> Option<(ObjectKey, &str)> {
        let is_ours = |version: &str| version.split('/').next() == Some(GROUP);
        let mut owners = self.meta.owner_references.iter();
        let owner = owners.find(|it| {
            it.controller == Some(true) && it.kind == KIND && is_ours(&it.api_version)
        })?;
        let key = ObjectKey::new(self.meta.key.namespace.as_str(), owner.name.as_str());
        Some((key, &owner.uid))
    }
}
