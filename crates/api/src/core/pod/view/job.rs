//! What a Job asks of its pods, and nobody else: which completion a pod is for, how often that one
//! failed before, how and when the containers ended. Kept for pods of Jobs alone.

use jiff::Timestamp;

use super::{Annotations, ContainerStatus, PodSpecView, Status};
use crate::Interned;
use crate::batch::job::TRACKING_FINALIZER;
use crate::object::Meta;

#[derive(Clone, Debug, Default, PartialEq)]
pub struct JobPart {
    /// Which of the completions of an indexed Job it is for.
    pub completion_index: Option<i32>,
    /// Pods of this index that failed before it and count.
    pub index_failures: i32,
    /// Those that failed and do not count.
    pub index_ignored_failures: i32,
    /// When all its containers had ended; else since when it is not ready.
    pub ended: Option<Timestamp>,
    /// Of all its containers together.
    pub restarts: i32,
    /// Of a failed pod: containers that ended badly, init containers last.
    pub exits: Box<[Exit]>,
    /// Of a failed pod: type and status of its conditions.
    pub conditions: Box<[(Interned, Interned)]>,
}

/// A container that ended with a code other than 0.
#[derive(Clone, Debug, PartialEq)]
pub struct Exit {
    pub container: Interned,
    pub code: i32,
}

pub(super) fn read(
    meta: &Meta,
    annotations: &Annotations,
    status: &Status,
    spec: &PodSpecView,
) -> Option<Box<JobPart>> {
    let mut owners = meta.owner_references.iter();
    let is_of_job = owners.any(|it| it.controller == Some(true) && it.kind == "Job")
        || meta.finalizers.iter().any(|it| it == TRACKING_FINALIZER);
    if !is_of_job {
        return None;
    }
    let count = |text: &Option<Interned>| {
        let count = text.as_ref().and_then(|it| it.parse::<i32>().ok());
        count.filter(|it| *it >= 0)
    };
    let has_failed = status.phase.as_deref() == Some("Failed");
    let conditions = status.conditions.iter().flatten().filter(|_| has_failed);
    Some(Box::new(JobPart {
        completion_index: count(&annotations.completion_index),
        index_failures: count(&annotations.index_failures).unwrap_or(0),
        index_ignored_failures: count(&annotations.index_ignored_failures).unwrap_or(0),
        ended: status.ended(spec),
        restarts: status.containers().filter_map(|it| it.restart_count).sum(),
        exits: status.containers().filter(|_| has_failed).filter_map(exit).collect(),
        conditions: conditions.map(|it| (it.kind.clone(), it.status.clone())).collect(),
    }))
}

fn exit(status: &ContainerStatus) -> Option<Exit> {
    let code = status.terminated()?.exit_code.filter(|it| *it != 0)?;
    Some(Exit { container: status.name.clone().unwrap_or_default(), code })
}

impl ContainerStatus {
    fn terminated(&self) -> Option<&super::Terminated> {
        self.state.as_ref()?.terminated.as_ref()
    }
}

impl Status {
    fn containers(&self) -> impl Iterator<Item = &ContainerStatus> {
        self.container_statuses.iter().chain(&self.init_container_statuses).flatten()
    }

    fn ended(&self, spec: &PodSpecView) -> Option<Timestamp> {
        let not_ready = || self.condition("Ready", "False").and_then(|it| it.last_transition_time);
        self.containers_ended(spec).or_else(not_ready)
    }

    /// Absent while one of them runs. Sidecars end last; other init containers have ended long ago.
    fn containers_ended(&self, spec: &PodSpecView) -> Option<Timestamp> {
        let is_sidecar = |status: &&ContainerStatus| {
            let mut sidecars = spec.init_containers.iter().filter(|it| it.is_sidecar);
            sidecars.any(|it| Some(&it.name) == status.name.as_ref())
        };
        let sidecars = self.init_container_statuses.iter().flatten().filter(is_sidecar);
        let mut last = None;
        for status in self.container_statuses.iter().flatten().chain(sidecars) {
            last = last.max(Some(status.terminated()?.finished_at?));
        }
        last
    }
}
