//! What a Job asks for, read once: its spec with the defaults that the server gave it.

use api::batch::job::{TRACKING_FINALIZER, is_indexed};
use api::core::pod::PodView;
use k8s_openapi::api::batch::v1::JobSpec;

pub(super) struct Terms<'a> {
    pub spec: &'a JobSpec,
    pub parallelism: i32,
    /// Absent: one success is enough, and then those that run may end.
    pub completions: Option<i32>,
    pub backoff_limit: i32,
    pub is_indexed: bool,
    /// How often the pods of one index may fail, if each has its own count.
    pub backoff_limit_per_index: Option<i32>,
    pub is_suspended: bool,
    /// Whether a pod that is being deleted is replaced, and counts as failed, only when it ended.
    pub waits_for_ends: bool,
}

impl<'a> Terms<'a> {
    pub(super) fn of(spec: &'a JobSpec) -> Self {
        let is_indexed = is_indexed(spec);
        Self {
            spec,
            parallelism: spec.parallelism.unwrap_or(1).max(0),
            completions: spec.completions,
            backoff_limit: spec.backoff_limit.unwrap_or(6),
            is_indexed,
            backoff_limit_per_index: spec.backoff_limit_per_index.filter(|_| is_indexed),
            is_suspended: spec.suspend == Some(true),
            waits_for_ends: spec.pod_replacement_policy.as_deref() == Some("Failed")
                || spec.pod_failure_policy.is_some(),
        }
    }

    /// The index of a pod, if there is such a completion.
    pub(super) fn index(&self, pod: &PodView) -> Option<i32> {
        let index = pod.job.as_ref()?.completion_index?;
        (index < self.completions.unwrap_or(0)).then_some(index)
    }

    /// Whether a pod can count at all: with an index, where the Job has such.
    pub(super) fn is_valid(&self, pod: &PodView) -> bool {
        !self.is_indexed || self.index(pod).is_some()
    }

    pub(super) fn has_failed(&self, pod: &PodView) -> bool {
        match pod.phase.as_str() {
            "Failed" => true,
            "Succeeded" => false,
            _ => !self.waits_for_ends && pod.meta.is_deleting,
        }
    }
}

pub(super) fn has_succeeded(pod: &PodView) -> bool {
    pod.phase.as_str() == "Succeeded"
}

/// Whether a pod is still to be counted.
pub(super) fn is_tracked(pod: &PodView) -> bool {
    pod.meta.finalizers.iter().any(|it| it == TRACKING_FINALIZER)
}
