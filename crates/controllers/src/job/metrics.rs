//! What the controller of Jobs shows of itself, under upstream's names.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use api::batch::job::is_indexed;
use api::core::pod::PodView;
use k8s_openapi::api::batch::v1::{JobSpec, JobStatus};
use reconcile::Change;
use telemetry::{
    Buckets, Counter, Description, Family, Histogram, Registry, Stability, exponential,
};

use super::indexes::Indexes;
use super::plan::Plan;
use super::terms::is_tracked;

const SYNC_DURATION: Description<3> = Description {
    name: "job_controller_job_sync_duration_seconds",
    stability: Stability::Stable,
    help: "The time it took to sync a job",
    labels: ["completion_mode", "result", "action"],
};
const SYNCS: Description<3> = Description {
    name: "job_controller_job_syncs_total",
    stability: Stability::Stable,
    help: "The number of job syncs",
    labels: ["completion_mode", "result", "action"],
};
const FINISHED: Description<3> = Description {
    name: "job_controller_jobs_finished_total",
    stability: Stability::Stable,
    help: "The number of finished jobs",
    labels: ["completion_mode", "result", "reason"],
};
const EXTERNAL: Description<1> = Description {
    name: "job_controller_jobs_by_external_controller_total",
    stability: Stability::Alpha,
    help: "The number of Jobs managed by an external controller",
    labels: ["controller_name"],
};
const PODS_FINISHED: Description<2> = Description {
    name: "job_controller_job_pods_finished_total",
    stability: Stability::Stable,
    help: "The number of finished Pods that are fully tracked",
    labels: ["completion_mode", "result"],
};
const POLICY: Description<1> = Description {
    name: "job_controller_pod_failures_handled_by_failure_policy_total",
    stability: Stability::Beta,
    help: "The number of failed Pods handled by failure policy with respect to the failure policy \
           action applied based on the matched rule.",
    labels: ["action"],
};
const TRACKED: Description<1> = Description {
    name: "job_controller_terminated_pods_tracking_finalizer_total",
    stability: Stability::Beta,
    help: "The number of terminated pods (phase=Failed|Succeeded) that have the finalizer \
           batch.kubernetes.io/job-tracking. The event label can be \"add\" or \"delete\".",
    labels: ["event"],
};
const INDEXES: Description<2> = Description {
    name: "job_controller_job_finished_indexes_total",
    stability: Stability::Alpha,
    help: "The number of finished indexes, by status and by whose backoffLimit counts.",
    labels: ["status", "backoffLimit"],
};
const CREATIONS: Description<2> = Description {
    name: "job_controller_job_pods_creation_total",
    stability: Stability::Alpha,
    help: "The number of Pods created by the Job controller labelled with a reason for the Pod \
           creation.",
    labels: ["reason", "status"],
};
const STALE: Description<2> = Description {
    name: "job_controller_stale_sync_skips_total",
    stability: Stability::Alpha,
    help: "Total number of Job syncs skipped due to a stale watch cache.",
    labels: ["group", "resource"],
};
const BUCKETS: Buckets = Buckets::seconds(&exponential::<15>(0.004, 2.0));
/// Names of other controllers that are told apart: clients choose them.
const EXTERNAL_MAX: usize = 100;

pub(super) struct Metrics {
    sync_duration: Family<Histogram, 3>,
    syncs: Family<Counter, 3>,
    finished: Family<Counter, 3>,
    external: Family<Counter, 1>,
    external_names: Mutex<BTreeSet<String>>,
    pods_finished: Family<Counter, 2>,
    policy: Family<Counter, 1>,
    tracked_added: Arc<Counter>,
    tracked_deleted: Arc<Counter>,
    indexes: Family<Counter, 2>,
    creations: Family<Counter, 2>,
    stale: Family<Counter, 2>,
}

fn mode(spec: &JobSpec) -> &'static str {
    if is_indexed(spec) { "Indexed" } else { "NonIndexed" }
}

impl Metrics {
    pub(super) fn new(registry: &Registry) -> Self {
        let tracked = registry.counters(&TRACKED);
        Self {
            sync_duration: registry.histograms(&SYNC_DURATION, BUCKETS),
            syncs: registry.counters(&SYNCS),
            finished: registry.counters(&FINISHED),
            external: registry.counters(&EXTERNAL),
            external_names: Mutex::default(),
            pods_finished: registry.counters(&PODS_FINISHED),
            policy: registry.counters(&POLICY),
            tracked_added: tracked.with(["add"]),
            tracked_deleted: tracked.with(["delete"]),
            indexes: registry.counters(&INDEXES),
            creations: registry.counters(&CREATIONS),
            stale: registry.counters(&STALE),
        }
    }

    pub(super) fn synced(&self, spec: &JobSpec, plan: &Plan, is_well: bool, took: Duration) {
        let action = if !plan.let_go.is_empty() {
            "pods_deleted"
        } else if !plan.create.is_empty() || plan.wait.is_some() {
            "pods_created"
        } else if !plan.stop.is_empty() {
            "reconciling"
        } else {
            "tracking"
        };
        let labels = [mode(spec), if is_well { "success" } else { "error" }, action];
        self.sync_duration.with(labels).observe(took);
        self.syncs.with(labels).increment();
    }

    pub(super) fn finished(&self, spec: &JobSpec, result: &str, reason: &str) {
        self.finished.with([mode(spec), result, reason]).increment();
    }

    pub(super) fn managed_elsewhere(&self, name: &str) {
        let mut names = self.external_names.lock().unwrap_or_else(PoisonError::into_inner);
        let is_known = names.contains(name);
        if is_known || names.len() < EXTERNAL_MAX {
            if !is_known {
                names.insert(name.to_owned());
            }
            self.external.with([name]).increment();
        }
    }

    pub(super) fn follow(&self, change: Change<'_, PodView>) {
        let is =
            |it: Option<&Arc<PodView>>| it.is_some_and(|it| it.is_terminal() && is_tracked(it));
        match (is(change.before()), is(change.after())) {
            (false, true) => self.tracked_added.increment(),
            (true, false) => self.tracked_deleted.increment(),
            _ => {}
        }
    }

    pub(super) fn created(&self, spec: &JobSpec, plan: &Plan, succeeded: usize, failed: usize) {
        let waits = spec.pod_replacement_policy.as_deref() == Some("Failed");
        let reason = match (waits, plan.has_failures, plan.has_terminating) {
            (true, true, _) => "recreate_failed",
            (_, true, _) | (_, _, true) => "recreate_terminating_or_failed",
            _ => "new",
        };
        for (status, count) in [("succeeded", succeeded), ("failed", failed)] {
            if count > 0 {
                self.creations.with([reason, status]).add(count as u64);
            }
        }
    }

    pub(super) fn stale(&self, group: &str, resource: &str) {
        self.stale.with([group, resource]).increment();
    }

    /// A status was written in place of another.
    pub(super) fn counted(&self, spec: &JobSpec, plan: &Plan, old: &JobStatus, new: &JobStatus) {
        let grown = |old: i64, new: i64| u64::try_from(new - old).unwrap_or(0);
        let number = |it: Option<i32>| i64::from(it.unwrap_or(0));
        let mut succeeded = grown(number(old.succeeded), number(new.succeeded));
        if is_indexed(spec) {
            let count = |text: &Option<String>| {
                let completions = spec.completions.unwrap_or(0);
                text.as_ref().map_or(0, |it| Indexes::parse(it, completions).len())
            };
            let is_per_index = spec.backoff_limit_per_index.is_some();
            let limit = if is_per_index { "perIndex" } else { "global" };
            succeeded = grown(count(&old.completed_indexes), count(&new.completed_indexes));
            self.indexes.with(["succeeded", limit]).add(succeeded);
            let failed = grown(count(&old.failed_indexes), count(&new.failed_indexes));
            if is_per_index && failed > 0 {
                self.indexes.with(["failed", limit]).add(failed);
            }
        }
        let failed = grown(number(old.failed), number(new.failed));
        self.pods_finished.with([mode(spec), "succeeded"]).add(succeeded);
        self.pods_finished.with([mode(spec), "failed"]).add(failed);
        for (action, count) in &plan.actions {
            self.policy.with([action]).add(*count);
        }
    }
}
