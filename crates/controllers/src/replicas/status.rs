//! The status of an owner of replicas, from its pods. Pure.

use std::collections::BTreeMap;
use std::time::Duration;

use api::Identified as _;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::PodTemplateSpec;

use super::plan::Plan;
use crate::pods;

/// Why pods could not be created or deleted, as the condition `ReplicaFailure` says it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    /// `FailedCreate` or `FailedDelete`.
    pub reason: String,
    pub message: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Status {
    pub replicas: i32,
    pub fully_labeled: i32,
    pub ready: i32,
    pub available: i32,
    pub terminating: i32,
    pub observed_generation: i64,
    pub failure: Option<Failure>,
}

/// What the owner says about itself.
pub(crate) struct Wanted<'a> {
    pub template: Option<&'a PodTemplateSpec>,
    pub min_ready_seconds: i32,
    pub generation: i64,
    pub counts_terminating: bool,
}

pub(crate) struct Planned {
    /// The status to write, if it differs from what is stored.
    pub write: Option<Status>,
    /// When the next ready pod becomes available by the passing of time alone.
    pub next_available: Option<Duration>,
}

pub(crate) fn plan(
    plan: &Plan,
    wanted: &Wanted<'_>,
    failure: Option<Failure>,
    stored: &Status,
    now: Timestamp,
) -> Planned {
    let Counted { mut status, next_available } =
        count(plan, wanted.template, wanted.min_ready_seconds, now);
    status.observed_generation = wanted.generation;
    if !wanted.counts_terminating {
        status.terminating = 0;
    }
    // A failure that goes on is said once: its words may differ in every attempt.
    status.failure = match (failure, &stored.failure) {
        (Some(_), Some(said)) => Some(said.clone()),
        (failure, _) => failure,
    };
    Planned { write: (status != *stored).then_some(status), next_available }
}

struct Counted {
    status: Status,
    next_available: Option<Duration>,
}

fn count(
    plan: &Plan,
    template: Option<&PodTemplateSpec>,
    min_ready_seconds: i32,
    now: Timestamp,
) -> Counted {
    let no_labels = BTreeMap::new();
    let template_labels =
        template.and_then(|it| it.metadata.as_ref()?.labels.as_ref()).unwrap_or(&no_labels);
    let min_ready = Duration::from_secs(u64::try_from(min_ready_seconds).unwrap_or(0));
    let mut status = Status { terminating: size(plan.terminating), ..Status::default() };
    let mut next_available = None;
    for pod in &plan.active {
        status.replicas += 1;
        if template_labels.iter().all(|(key, value)| pod.label(key) == Some(value)) {
            status.fully_labeled += 1;
        }
        if pod.is_ready {
            status.ready += 1;
        }
        match pods::available_in(pod, min_ready, now) {
            Some(Duration::ZERO) => status.available += 1,
            Some(left) => {
                next_available = Some(next_available.map_or(left, |it: Duration| it.min(left)));
            }
            None => {}
        }
    }
    Counted { status, next_available }
}

fn size(count: usize) -> i32 {
    i32::try_from(count).unwrap_or(i32::MAX)
}
